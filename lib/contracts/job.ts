import type { LoggerService } from '@nestjs/common';
import type { JobKinds } from './job-kinds.js';

/** A kind of job. Any string; the ones declared in {@link JobKinds} are offered by the editor. */
export type JobKind = (keyof JobKinds & string) | (string & {});

/** The payload of a kind: what {@link JobKinds} declares, else `unknown`. */
export type PayloadOf<K extends JobKind> = K extends keyof JobKinds ? JobKinds[K] : unknown;

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
   * Aborted when the attempt should stop: its `timeout` is over, the lease was lost, or the process
   * stops and the grace time is over. `signal.reason` is a `PgQueueError` that says which.
   */
  readonly signal: AbortSignal;
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
}
