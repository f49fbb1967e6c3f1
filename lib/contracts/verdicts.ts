import { types } from 'node:util';
import { isDuration, type Duration } from './duration.js';
import { PgQueueError } from './errors.js';

/**
 * What a handler can say about its job by throwing: each class below carries a verdict under this
 * key. It is a registered symbol, so a second copy of the package in `node_modules` is understood.
 */
export const VERDICT = Symbol.for('nestjs-pg-queue.verdict');

/** See the error classes below for the meaning of each. */
export type Verdict =
  | { readonly action: 'fail' }
  | { readonly action: 'cancel' }
  | { readonly action: 'retry'; readonly when: Date | Duration }
  | { readonly action: 'snooze'; readonly when: Date | Duration };

/** Thrown by a handler: no retry will help, the job goes to `failed_jobs` now. */
export class UnrecoverableError extends Error {
  override readonly name: string = 'UnrecoverableError';
  readonly [VERDICT]: Verdict = { action: 'fail' };
}

/** Thrown by a handler: this attempt failed, and the next one is due at `when` instead of by the backoff. */
export class RetryAt extends Error {
  override readonly name: string = 'RetryAt';
  readonly [VERDICT]: Verdict;

  /** @param when an instant, or a duration from now (milliseconds or `'90s'`). */
  constructor(
    when: Date | Duration,
    message = 'The handler asked for a retry',
    options?: ErrorOptions,
  ) {
    super(message, options);
    this[VERDICT] = { action: 'retry', when: checkedWhen(when) };
  }
}

/** Thrown by a handler: not yet. The job is due again at `when` and the attempt is given back. */
export class SnoozeJob extends Error {
  override readonly name: string = 'SnoozeJob';
  readonly [VERDICT]: Verdict;

  /** @param when an instant, or a duration from now (milliseconds or `'90s'`). */
  constructor(when: Date | Duration, message = 'The handler snoozed the job') {
    super(message);
    this[VERDICT] = { action: 'snooze', when: checkedWhen(when) };
  }
}

/** Thrown by a handler: the job is not wanted any more. It ends as `cancelled`, with the message kept. */
export class CancelJob extends Error {
  override readonly name: string = 'CancelJob';
  readonly [VERDICT]: Verdict = { action: 'cancel' };
}

/**
 * The verdict that a thrown value carries, if it is one that this version understands. Never throws,
 * whatever `thrown` is.
 */
export function verdictOf(thrown: unknown): Verdict | undefined {
  if (typeof thrown !== 'object' || thrown === null) return undefined;
  try {
    const verdict = (thrown as { [VERDICT]?: Verdict })[VERDICT];
    switch (verdict?.action) {
      case 'fail':
      case 'cancel':
        return { action: verdict.action };
      case 'retry':
      case 'snooze':
        return { action: verdict.action, when: checkedWhen(verdict.when) };
      case undefined:
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}

function checkedWhen(when: Date | Duration): Date | Duration {
  if (types.isDate(when) ? !Number.isNaN(when.getTime()) : isDuration(when)) return when;
  throw new PgQueueError(
    'INVALID_ARGUMENT',
    `${String(when)} is neither a valid Date nor a duration. Give a Date, milliseconds, or a string such as '90s'.`,
  );
}
