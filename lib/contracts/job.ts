import type { LoggerService } from '@nestjs/common';
import type { JobKinds, JobResults } from './job-kinds.js';
import type { QueueTransaction } from './transaction.js';

/** A kind of job. Any string; the ones declared in {@link JobKinds} are offered by the editor. */
export type JobKind = (keyof JobKinds & string) | (string & {});

/** The payload of a kind: what {@link JobKinds} declares, else `unknown`. */
export type PayloadOf<K extends JobKind> = K extends keyof JobKinds ? JobKinds[K] : unknown;

/** What the handler of a kind returns, as JSON keeps it: what {@link JobResults} declares, else `unknown`. */
export type ResultOf<K extends JobKind> = K extends keyof JobResults ? JobResults[K] : unknown;

/**
 * Where a job stands. `queued`, `scheduled`, `waiting` and `running` are pending; `failed` waits for a
 * person; `done` and `cancelled` are history.
 */
export type JobStatus =
  'queued' | 'scheduled' | 'waiting' | 'running' | 'failed' | 'done' | 'cancelled';

/** What a handler is given beside its payload. One per attempt. */
export interface JobContext<K extends JobKind = JobKind> {
  /** The job's id: a string, since it may pass 2^53. */
  readonly id: string;
  readonly kind: K;
  readonly queue: string;
  readonly payload: PayloadOf<K>;
  /** 1 at the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The `meta` given at enqueue, or null. */
  readonly meta: Readonly<Record<string, unknown>> | null;
  readonly createdAt: Date;
  /**
   * The instant that the schedule meant, however late the job runs; undefined if no schedule made the job.
   * Of a job that was asked for by `runNow`, when that was.
   */
  readonly slot?: Date | undefined;
  /**
   * Aborted when the attempt should stop: somebody cancelled the job, its `timeout` is over, the lease was
   * lost, or the process stops and the grace time is over. `signal.reason` is a `PgQueueError` that says which.
   */
  readonly signal: AbortSignal;
  /**
   * Runs `work` in a transaction that also completes the job: what it writes through `tx` and the end of the job
   * are committed together, or neither is. What `work` resolves to is the job's result, and is answered. After
   * it has resolved the job is done, whatever the handler returns or throws then. It takes a connection of the
   * callers' pool. At most one in an attempt; one that was rolled back may be tried again.
   * @throws what `work` throws; `LEASE_LOST` or `JOB_CANCELLED` if the job is not this attempt's to complete, and
   *   then nothing was written; `OUTCOME_UNKNOWN` if the connection broke during the commit: let it pass;
   *   `SECOND_TRANSACTION`; `TRANSACTION_ABORTED` as `QueueService.transaction`
   */
  transaction<T>(work: (tx: QueueTransaction) => Promise<T>): Promise<T>;
  /**
   * The transaction in which a handler with `transactional: true` runs.
   * @throws PgQueueError `INVALID_ARGUMENT` in any other handler
   */
  readonly tx: QueueTransaction;
  /**
   * How far the attempt has come, for `QueueService.get`: a number from 0 to 100, or a JSON value of at most
   * 4 KiB. Written at most once a second for all jobs of this process, the latest value only, and gone when the
   * attempt has ended.
   * @throws PgQueueError `INVALID_ARGUMENT` if the value is none of these
   */
  progress(value: unknown): void;
  /** The same for every attempt of this job and for no other job: pass it to services that accept one. */
  readonly idempotencyKey: string;
  /** A Nest logger whose context names the kind and the id. */
  readonly logger: LoggerService;
}

/** One failed attempt, as kept in the `errors` column. */
export interface JobErrorRecord {
  readonly attempt: number;
  /** ISO 8601, by the database's clock. */
  readonly at: string;
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  /** The worker that ran or lost the attempt. */
  readonly worker?: string;
}

/** A job as `QueueService.get` reads it, wherever it stands. */
export interface JobRecord<K extends JobKind = JobKind> {
  readonly id: string;
  readonly queue: string;
  readonly kind: K;
  readonly payload: PayloadOf<K>;
  readonly status: JobStatus;
  readonly priority: number;
  readonly runAt: Date;
  /** Attempts begun so far. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** The worker that runs it, or that settled it; null if none does. */
  readonly lockedBy: string | null;
  readonly dedupeKey: string | null;
  readonly lastError: string | null;
  /** The latest failed attempts, oldest first, at most 20. */
  readonly errors: readonly JobErrorRecord[];
  readonly meta: Readonly<Record<string, unknown>> | null;
  readonly createdAt: Date;
  /** When it was done, cancelled or failed for good; null while pending. */
  readonly finishedAt: Date | null;
  /** What the handler returned, if the job is done; null otherwise. */
  readonly result: unknown;
  /** No attempt begins after it; null if there is none, and when the job has ended. */
  readonly deadline: Date | null;
  /** When somebody first asked to cancel it while it ran; null if nobody did, and when the job has ended. */
  readonly cancelRequestedAt: Date | null;
  /** What the attempt that runs last said by `job.progress`; null if it said nothing. */
  readonly progress: unknown;
}
