import type { Duration } from './duration.js';
import type { JobKind, PayloadOf } from './job.js';
import type { TransactionHandle } from './transaction.js';

/** What can be said of a job at enqueue, besides its kind and payload. */
export interface JobOptions {
  /** Default: the queue of the kind's handler in this application, else `'default'`. */
  readonly queue?: string | undefined;
  /** -32768 to 32767, smaller runs first. Default 0. */
  readonly priority?: number | undefined;
  /** Not before this instant: a Date, or ISO 8601 text with `Z` or an offset. Not together with `delay`. */
  readonly runAt?: Date | string | undefined;
  /** Not before this long from now, by the database's clock. */
  readonly delay?: Duration | undefined;
  /**
   * No attempt begins after this: the job is cancelled instead. A Date, ISO 8601 text with `Z` or an offset, or a
   * duration from now (milliseconds or `'10m'`), by the database's clock. Default: none.
   */
  readonly deadline?: Date | string | number | undefined;
  /** Default: as the kind's handler in this application says, else 5. */
  readonly maxAttempts?: number | undefined;
  /** At most one pending job per (kind, key): a second enqueue changes nothing and answers the first id. */
  readonly dedupe?: string | { readonly key: string } | undefined;
  /** Anything JSON-able that you want beside the job: trace context, tags. Not shown to other systems. */
  readonly meta?: Record<string, unknown> | undefined;
}

/** Options of `enqueue`. */
export interface EnqueueOptions extends JobOptions {
  /** Your open transaction: the job exists if and only if it commits. */
  readonly tx?: TransactionHandle | undefined;
}

/** One job of `enqueueMany`. */
export type NewJob<K extends JobKind = JobKind> = { readonly kind: K } & JobOptions &
  (undefined extends PayloadOf<K>
    ? { readonly payload?: PayloadOf<K> }
    : { readonly payload: PayloadOf<K> });

/** What `enqueue` answers. */
export interface EnqueueResult {
  /** The id of the new job, or of the one that holds the dedupe key. */
  readonly id: string;
  readonly outcome: 'inserted' | 'duplicate';
}
