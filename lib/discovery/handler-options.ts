import type { BackoffOptions } from '../contracts/backoff.js';
import type { HandlerLimit, JobHandlerOptions, RegisteredHandler } from '../contracts/handler.js';
import { checkedLimit, type LimitRecord } from '../contracts/limits.js';
import {
  duration,
  invalid,
  isPlainObject,
  isStorableName,
  MAX_BYTES,
  queueName,
  refuseUnknown,
  wholeNumber,
} from '../contracts/option-checks.js';
import { DEFAULTS } from '../contracts/resolve-options.js';

const OPTION_NAMES = [
  'queue',
  'concurrency',
  'maxAttempts',
  'backoff',
  'timeout',
  'keepDone',
  'retryable',
  'limits',
  'transactional',
  'stillNeeded',
  'instance',
  'globalEnhancers',
] as const satisfies readonly (keyof JobHandlerOptions)[];

/** The settings of a handler that its options decide. */
export type ResolvedHandlerOptions = Omit<RegisteredHandler, 'kind' | 'origin' | 'run'>;

/**
 * Checks what was given to `@JobHandler` and fills in the defaults.
 * @throws PgQueueError `INVALID_OPTION`, naming the option and what it may be.
 */
export function resolveHandlerOptions(
  kind: unknown,
  options: JobHandlerOptions,
  defaults: Pick<ResolvedHandlerOptions, 'keepDone' | 'retryable'>,
): ResolvedHandlerOptions {
  if (!isStorableName(kind, MAX_BYTES.kind)) {
    throw invalid('kind', kind, `text of 1 to ${MAX_BYTES.kind} bytes`);
  }
  if (!isPlainObject(options)) throw invalid('options', options, 'an object');
  refuseUnknown('options of @JobHandler', options, OPTION_NAMES);
  const { queue, concurrency, maxAttempts, backoff, timeout, keepDone, retryable } = options;
  const { transactional, stillNeeded } = options;
  checkBoolean('globalEnhancers', options.globalEnhancers);
  checkBoolean('keepDone', keepDone);
  check('retryable', retryable, 'a function', typeof retryable === 'function');
  checkBoolean('transactional', transactional);
  check('stillNeeded', stillNeeded, 'a function', typeof stillNeeded === 'function');
  return {
    queue: queue === undefined ? DEFAULTS.queue : queueName('queue', queue),
    concurrency: concurrency === undefined ? undefined : wholeNumber('concurrency', concurrency, 1),
    maxAttempts: wholeNumber('maxAttempts', maxAttempts, DEFAULTS.maxAttempts),
    backoff: backoff === undefined ? DEFAULTS.backoff : checkedBackoff(backoff),
    timeout: timeout === undefined ? undefined : duration('timeout', timeout, 0, 1),
    keepDone: keepDone ?? defaults.keepDone,
    retryable: retryable ?? defaults.retryable,
    limits: limitsOf(kind, options.limits),
    transactional,
    stillNeeded,
  };
}

function limitsOf(kind: string, limits: JobHandlerOptions['limits'] = []): LimitRecord[] {
  return [limits].flat().map((limit: HandlerLimit) => {
    if (!isPlainObject(limit)) throw invalid('limits', limit, 'a limit, or a list of limits');
    refuseUnknown('options of a limit', limit, ['name', 'by', 'maxRunning', 'rate']);
    const name = limit.name ?? (limit.by === undefined ? kind : `${kind} by ${limit.by}`);
    return checkedLimit('limits', { ...limit, name, kinds: [kind] });
  });
}

function checkedBackoff(backoff: BackoffOptions): BackoffOptions {
  if (typeof backoff === 'function') return backoff;
  if (!isPlainObject(backoff)) throw invalid('backoff', backoff, 'an object or a function');
  if (backoff.type === 'exponential') {
    refuseUnknown('options of an exponential backoff', backoff, [
      'type',
      'base',
      'max',
      'factor',
      'jitter',
    ]);
    duration('backoff.base', backoff.base, 0);
    duration('backoff.max', backoff.max, 0, 1);
    checkNumber('backoff.factor', backoff.factor, 'a number above 1', (n) => n > 1);
  } else if (backoff.type === 'fixed') {
    refuseUnknown('options of a fixed backoff', backoff, ['type', 'delay', 'jitter']);
    duration('backoff.delay', backoff.delay ?? null, 0);
  } else {
    const { type } = backoff as { type: unknown };
    throw invalid('backoff.type', type, "'exponential' or 'fixed'");
  }
  checkNumber('backoff.jitter', backoff.jitter, 'a number from 0 to 1', (n) => n >= 0 && n <= 1);
  return backoff;
}

function checkNumber(
  option: string,
  value: unknown,
  expected: string,
  isRight: (n: number) => boolean,
): void {
  check(option, value, expected, Number.isFinite(value) && isRight(value as number));
}

function checkBoolean(option: string, value: unknown): void {
  check(option, value, 'true or false', typeof value === 'boolean');
}

function check(option: string, value: unknown, expected: string, isRight: boolean): void {
  if (value !== undefined && !isRight) throw invalid(option, value, expected);
}
