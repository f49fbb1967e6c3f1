import { types } from 'node:util';
import type { BackoffOptions } from '../contracts/backoff.js';
import { boundedDelay } from '../contracts/delay.js';
import { MAX_DURATION_MS, parseDuration } from '../contracts/duration.js';
import { DEFAULTS } from '../contracts/resolve-options.js';

/** A delay, and what was wrong with a custom backoff that had to be replaced by the default. */
export interface RetryDelay {
  readonly ms: number;
  readonly fault?: unknown;
}

/**
 * How long to wait after the given attempt (1 = the first) failed. Always finite, at least 1 ms, at most the
 * backoff's `max` plus jitter. `random` answers in [0, 1).
 */
export function retryDelay(
  backoff: BackoffOptions,
  attempt: number,
  error: unknown,
  random: () => number = Math.random,
): RetryDelay {
  if (typeof backoff === 'function') return customDelay(backoff, attempt, error, random);
  if (backoff.type === 'fixed') {
    return { ms: jittered(milliseconds(backoff.delay), backoff.jitter ?? 0, random) };
  }
  const base = milliseconds(backoff.base ?? DEFAULTS.backoff.base);
  const max = milliseconds(backoff.max ?? DEFAULTS.backoff.max);
  // The exponent may overflow to Infinity, which the cap then bounds.
  const full = boundedDelay(
    base * (backoff.factor ?? DEFAULTS.backoff.factor) ** (attempt - 1),
    max,
  );
  return { ms: jittered(full, backoff.jitter ?? DEFAULTS.backoff.jitter, random) };
}

function customDelay(
  backoff: (attempt: number, error: unknown) => unknown,
  attempt: number,
  error: unknown,
  random: () => number,
): RetryDelay {
  let fault: unknown;
  try {
    const answer = backoff(attempt, error);
    ignoreRejection(answer);
    const ms = parseDuration(answer);
    if (ms !== undefined) return { ms: boundedDelay(ms, MAX_DURATION_MS) };
    fault = new TypeError(`The backoff answered ${String(answer)}, which is no duration`);
  } catch (thrown) {
    fault = thrown ?? new TypeError(`The backoff threw ${String(thrown)}`);
  }
  return { ms: retryDelay(DEFAULTS.backoff, attempt, error, random).ms, fault };
}

/** An answer that is a promise is a fault already; its rejection must not end the process beside that. */
function ignoreRejection(answer: unknown): void {
  if (types.isPromise(answer)) answer.catch(() => {});
}

function jittered(ms: number, jitter: number, random: () => number): number {
  return boundedDelay(ms * (1 + jitter * (random() - 0.5)), MAX_DURATION_MS);
}

function milliseconds(duration: unknown): number {
  return parseDuration(duration) ?? DEFAULTS.backoff.base;
}

/** HTTP 4xx that may pass: request time-out, too early, too many requests. */
const PASSING_CLIENT_ERRORS = new Set([408, 425, 429]);
const VALIDATION_ERRORS = new Set([
  'ValidationError',
  'ZodError',
  'ValiError',
  'YupValidationError',
]);

/**
 * The default rule of what is worth another attempt: everything but validation errors and HTTP 4xx other
 * than 408, 425 and 429. The status is looked for where Nest, axios, got and fetch wrappers put it.
 */
export function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return true;
  try {
    // class-validator rejects with a list.
    if (Array.isArray(error) && error.length > 0) return error.some(isRetryable);
    const { name, status, statusCode, response } = error as Record<string, unknown>;
    if (VALIDATION_ERRORS.has(String(name ?? error.constructor.name))) return false;
    const { status: responseStatus, statusCode: responseCode } = (response ?? {}) as Record<
      string,
      unknown
    >;
    const code = [status, statusCode, responseStatus, responseCode].find(
      (value) => typeof value === 'number',
    );
    return code === undefined || code < 400 || code > 499 || PASSING_CLIENT_ERRORS.has(code);
  } catch {
    return true;
  }
}
