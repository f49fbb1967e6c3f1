import type { Duration } from './duration.js';
import type { JobOptions } from './enqueue.js';

/** Options of `waitFor`. */
export interface WaitOptions {
  /** How long to wait, from the call on: at least 1 ms. Default 30 s. */
  readonly timeout?: Duration | undefined;
}

/**
 * Options of `enqueueAndWait`. There is no `tx`: the job can't begin before that transaction has committed. Use
 * `enqueue`, and `waitFor` after the commit.
 */
export interface EnqueueAndWaitOptions extends JobOptions, WaitOptions {}
