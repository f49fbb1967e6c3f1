import type { Duration } from './duration.js';

/** Which failed jobs; a missing member restricts nothing. */
export interface FailedFilter {
  readonly kind?: string | undefined;
  readonly queue?: string | undefined;
  /** Inclusive. */
  readonly failedAfter?: Date | undefined;
  /** Exclusive. */
  readonly failedBefore?: Date | undefined;
}

/**
 * What `cancel` did. `cancelled`: the job waited, and never runs. `requested`: it runs; its signal is aborted,
 * and it ends as cancelled however its attempt ends. `finished` and `not_found`: nothing was changed.
 */
export type CancelOutcome = 'cancelled' | 'requested' | 'finished' | 'not_found';

/** What `retry` did to each id. */
export interface RetryResult {
  readonly retried: string[];
  /** Left failed: a pending job, `holder`, has the dedupe key; null if it was settled meanwhile. */
  readonly conflicts: { readonly id: string; readonly holder: string | null }[];
  /** There is no failed job of that id. */
  readonly notFailed: string[];
}

export interface JobCounts {
  readonly queued: number;
  readonly scheduled: number;
  readonly waiting: number;
  readonly running: number;
  readonly failed: number;
  /** Those of `waiting` that no live worker handles. */
  readonly withoutHandler: number;
}

export interface DrainOptions {
  /** Only jobs of these queues. Default: as the worker's `queues` says, else `'default'` and every handler's. */
  readonly queues?: readonly string[] | undefined;
  /** Runs at most this many jobs. Default: no bound. */
  readonly max?: number | undefined;
  /** Begins no job after this time, and gives running ones the worker's shutdown grace. Default 30 s. */
  readonly timeout?: Duration | undefined;
}

export interface DrainResult {
  /** Attempts begun. */
  readonly claimed: number;
  readonly done: number;
  /** Attempts that failed and will be repeated. */
  readonly retried: number;
  readonly failed: number;
  /** Why it ended: nothing due was left, or a bound was reached. */
  readonly reason: 'empty' | 'max' | 'timeout';
}
