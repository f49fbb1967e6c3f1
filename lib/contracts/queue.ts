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

/** Which pending jobs; a missing member restricts nothing. Running jobs are never among them. */
export interface PendingFilter {
  readonly kind?: string | undefined;
  readonly queue?: string | undefined;
  /** Inclusive. */
  readonly createdAfter?: Date | undefined;
  /** Exclusive. */
  readonly createdBefore?: Date | undefined;
}

/** Of `clear` and `retryAll`, which go through many jobs in batches. */
export interface BulkOptions {
  /** Changes nothing, and answers how many jobs match now. Default false. */
  readonly dryRun?: boolean | undefined;
  /** Called after each batch with what was done so far. If it throws, that is the end, and `clear` or `retryAll` rejects with it. */
  readonly onProgress?: ((progress: BulkResult) => void) | undefined;
}

/** How far `clear` or `retryAll` came. */
export interface BulkResult {
  /** Jobs that the filter named. */
  readonly matched: number;
  /** Those that were cancelled, or are pending again. 0 in a dry run. */
  readonly changed: number;
  /**
   * Left as they were: a job that began meanwhile or that somebody has locked; of `retryAll`, one whose dedupe
   * key a pending job has.
   */
  readonly skipped: number;
}

/** What `pause` and `resume` are about: a queue, or a kind in every queue. */
export type PauseTarget = { readonly queue: string } | { readonly kind: string };

/** A queue as `queues()` lists it: one that a worker has served, that somebody has paused or resized, or that has jobs. */
export interface QueueRecord {
  readonly name: string;
  /** Null: it is not paused. */
  readonly pausedAt: Date | null;
  /** Slots in each worker process as `resize` set them; null = as the options of each process say. */
  readonly concurrency: number | null;
  readonly queued: number;
  readonly scheduled: number;
  readonly waiting: number;
  readonly running: number;
  readonly failed: number;
}

/** A kind that is paused, in every queue. */
export interface PausedKind {
  readonly kind: string;
  readonly pausedAt: Date;
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
  /** Those of `waiting` that no live worker handles. Jobs of paused kinds, which are `waiting` too, are not counted. */
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
