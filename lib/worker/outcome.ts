import { types } from 'node:util';
import { parseDuration } from '../contracts/duration.js';
import type { PgQueueError } from '../contracts/errors.js';
import type { RegisteredHandler } from '../contracts/handler.js';
import { verdictOf } from '../contracts/verdicts.js';
import type { ClaimedJob, Settlement } from '../store/statements/exchange.js';
import { describeError } from './error-record.js';
import { resultRecord } from './result-record.js';
import { retryDelay } from './retry-policy.js';

/** How an attempt came to its end. */
export type AttemptEnd =
  | { readonly how: 'returned'; readonly value: unknown }
  /** `interrupted`: its signal had been aborted with this reason before. */
  | { readonly how: 'threw'; readonly error: unknown; readonly interrupted?: PgQueueError }
  /** Its `stillNeeded` answered false; the handler was not called. */
  | { readonly how: 'not needed' }
  /** Its `timeout` was over; the handler may still be running. */
  | { readonly how: 'timed out'; readonly error: PgQueueError }
  /** Nobody waits for it any more: the process stops. */
  | { readonly how: 'abandoned' };

/** A settlement, and what to tell of it. */
export interface Outcome {
  readonly settlement: Settlement;
  /** A custom backoff that failed and was replaced by the default. */
  readonly backoffFault?: unknown;
}

/** What becomes of a job after an attempt. A function of its inputs. */
export function outcomeOf(job: ClaimedJob, handler: RegisteredHandler, end: AttemptEnd): Outcome {
  const { id, leaseNo } = job;
  switch (end.how) {
    case 'returned': {
      const result = resultRecord(end.value);
      return { settlement: { id, leaseNo, action: 'done', result, keep: handler.keepDone } };
    }
    case 'not needed':
      return { settlement: { id, leaseNo, action: 'cancel', error: NOT_NEEDED } };
    case 'abandoned':
      return { settlement: { id, leaseNo, action: 'release' } };
    case 'timed out':
      return failedAttempt(job, handler, end.error);
    case 'threw': {
      if (end.interrupted) return { settlement: stopped(job, end.interrupted) };
      return thrown(job, handler, end.error);
    }
  }
}

const NOT_NEEDED = {
  name: 'NotNeeded',
  message: 'stillNeeded answered that the job is not needed any more',
};

/** It stopped because it was asked to, not because it failed: the attempt is given back, or there is no other. */
function stopped({ id, leaseNo }: ClaimedJob, reason: PgQueueError): Settlement {
  if (reason.code !== 'JOB_CANCELLED') return { id, leaseNo, action: 'release' };
  const { name, message } = describeError(reason);
  return { id, leaseNo, action: 'cancel', error: { name, message } };
}

function thrown(job: ClaimedJob, handler: RegisteredHandler, error: unknown): Outcome {
  const { id, leaseNo } = job;
  const verdict = verdictOf(error);
  switch (verdict?.action) {
    case 'cancel':
      return { settlement: { id, leaseNo, action: 'cancel', error: describeError(error) } };
    case 'snooze':
      return { settlement: { id, leaseNo, action: 'release', ...dueAt(verdict.when) } };
    case 'fail':
      return { settlement: { id, leaseNo, action: 'fail', error: describeError(error) } };
    case 'retry':
      if (job.attempt >= job.maxAttempts) return failedAttempt(job, handler, error);
      return {
        settlement: {
          id,
          leaseNo,
          action: 'retry',
          ...dueAt(verdict.when),
          error: describeError(error),
        },
      };
    case undefined:
      return failedAttempt(job, handler, error);
  }
}

function failedAttempt(job: ClaimedJob, handler: RegisteredHandler, error: unknown): Outcome {
  const { id, leaseNo } = job;
  const record = describeError(error);
  if (job.attempt >= job.maxAttempts || !worthRetrying(handler, error)) {
    return { settlement: { id, leaseNo, action: 'fail', error: record } };
  }
  const { ms, fault } = retryDelay(handler.backoff, job.attempt, error);
  return {
    settlement: { id, leaseNo, action: 'retry', delayMs: ms, error: record },
    ...(fault !== undefined && { backoffFault: fault }),
  };
}

/** A rule that throws has not said that the error is final. */
function worthRetrying(handler: RegisteredHandler, error: unknown): boolean {
  try {
    return handler.retryable(error);
  } catch {
    return true;
  }
}

/** PostgreSQL does not read every instant that a Date holds: the years before 1 and after 9999 look different. */
const LAST_INSTANT = Date.UTC(9_999, 11, 31);

function dueAt(when: unknown): { runAt: Date } | { delayMs: number } {
  if (!types.isDate(when)) return { delayMs: parseDuration(when) ?? 0 };
  return { runAt: new Date(Math.max(0, Math.min(when.getTime(), LAST_INSTANT))) };
}
