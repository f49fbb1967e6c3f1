import { parseDuration } from './duration.js';
import { PgQueueError } from './errors.js';
import { isStorableName, MAX_BYTES } from './option-checks.js';
import type { DrainOptions } from './queue.js';

const TIMEOUT_MS = 30_000;

/** The options of a drain with defaults filled in. */
export interface CheckedDrain {
  /** undefined = those that a worker of this process would serve. */
  readonly queues: readonly string[] | undefined;
  /** undefined = no bound. */
  readonly max: number | undefined;
  /** Milliseconds. */
  readonly timeout: number;
}

/** @throws PgQueueError `INVALID_ARGUMENT`, naming the option and what it may be */
export function checkedDrain({ queues, max, timeout = TIMEOUT_MS }: DrainOptions): CheckedDrain {
  if (max !== undefined && !(Number.isInteger(max) && max >= 1)) {
    throw invalid('max', 'a whole number of at least 1');
  }
  const milliseconds = parseDuration(timeout);
  if (milliseconds === undefined) {
    throw invalid('timeout', "milliseconds or a string such as '30s'");
  }
  if (queues !== undefined && !isListOfNames(queues)) {
    throw invalid('queues', `a list of at least one name, each of 1 to ${MAX_BYTES.queue} bytes`);
  }
  return { queues, max, timeout: milliseconds };
}

function isListOfNames(queues: unknown): boolean {
  return (
    Array.isArray(queues) &&
    queues.length > 0 &&
    queues.every((name) => isStorableName(name, MAX_BYTES.queue))
  );
}

function invalid(option: string, expected: string): PgQueueError {
  return new PgQueueError('INVALID_ARGUMENT', `\`${option}\` of drain must be ${expected}.`);
}
