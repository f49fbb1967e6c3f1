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
  /**
   * At most one pending job per (kind, key): a second enqueue changes nothing and answers the first id. An
   * object says more, see {@link DedupeOptions}.
   */
  readonly dedupe?: string | DedupeOptions | undefined;
  /** Anything JSON-able that you want beside the job: trace context, tags. Not shown to other systems. */
  readonly meta?: Record<string, unknown> | undefined;
}

/** What a dedupe key does. */
export interface DedupeOptions {
  /** 1 to 1,024 bytes, of this kind. */
  readonly key: string;
  /**
   * When this job gives up its key: `settled` (default) = when it is done, cancelled or failed for good;
   * `started` = when it begins, so that what comes while it runs is a job of its own. A job that has given up
   * its key does not get it back for a retry.
   */
  readonly until?: 'settled' | 'started' | undefined;
  /**
   * What to do if a pending job has the key: `skip` (default) = nothing; `replace` = that job gets the payload,
   * meta, priority and due time of this one, unless it runs; `throw` = a {@link DuplicateJobError}.
   */
  readonly onDuplicate?: 'skip' | 'replace' | 'throw' | undefined;
  /** At most one job of the key in this time from when it was enqueued, even after it is settled. */
  readonly ttl?: Duration | undefined;
  /**
   * The job is due this long after the last enqueue of its key: `onDuplicate: 'replace'` and `delay` in one, with
   * `until: 'started'` unless said otherwise. Not together with `runAt`, `delay` or `ttl`.
   */
  readonly debounce?: Duration | undefined;
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
  /**
   * `duplicate`: nothing was changed. `replaced`: the pending job of that id has this payload now.
   */
  readonly outcome: 'inserted' | 'duplicate' | 'replaced';
}
