import type { JobRecord } from './job.js';

/** Every code of {@link PgQueueError}; match on these, the sentences may change. */
export type PgQueueErrorCode =
  /** An option of `forRoot`, `@JobHandler` or a worker is wrong. Thrown while the application starts. */
  | 'INVALID_OPTION'
  /** A decorated method can't be registered. Thrown while the application starts. */
  | 'INVALID_HANDLER'
  /** Two methods claim one kind. Thrown while the application starts. */
  | 'DUPLICATE_HANDLER'
  /** `forRoot` was called twice for one instance name. Thrown while the application starts. */
  | 'DUPLICATE_INSTANCE'
  /** The schema is missing or older than this version needs. Thrown while the application starts. */
  | 'SCHEMA_OUT_OF_DATE'
  /** A job given to `enqueue` can't be stored. Thrown before any SQL, the transaction stays usable. */
  | 'INVALID_JOB'
  /** An argument of another method is wrong. Thrown before any SQL. */
  | 'INVALID_ARGUMENT'
  /** A schedule can't be as it was given. Thrown before any SQL, for `@JobSchedule` while the application starts. */
  | 'INVALID_SCHEDULE'
  /** There is a schedule of that name already. */
  | 'SCHEDULE_EXISTS'
  /** There is no schedule of that name. */
  | 'SCHEDULE_NOT_FOUND'
  /** The schedule is declared by `@JobSchedule`, so that only code can change or remove it. */
  | 'SCHEDULE_DECLARED'
  /** The holder of a dedupe key exists but can't be seen from the caller's transaction. */
  | 'DEDUPE_HOLDER_HIDDEN'
  /** A pending job has the dedupe key and `onDuplicate` is `throw`. Nothing was added; the transaction stays usable. */
  | 'DUPLICATE_JOB'
  /** The connection was lost after the statement was sent: the job may or may not exist. */
  | 'OUTCOME_UNKNOWN'
  /** `QueueService.transaction` could not commit: a statement in it had failed. */
  | 'TRANSACTION_ABORTED'
  /** The `tx` of `QueueService.transaction` was used after that transaction had ended. */
  | 'TRANSACTION_ENDED'
  /** The database did not answer within the limit. */
  | 'DATABASE_TIMEOUT'
  /** The queue has been closed. */
  | 'CLOSED'
  /** The worker's lease ended while the job ran: someone else may be running it. */
  | 'LEASE_LOST'
  /** Somebody cancelled the job while it ran: the reason of its signal, and of a {@link JobWaitError}. */
  | 'JOB_CANCELLED'
  /** A second transaction that would complete a job in one attempt. */
  | 'SECOND_TRANSACTION'
  /** The attempt ran longer than the handler's `timeout`. */
  | 'JOB_TIMEOUT'
  /** The process is stopping and the job's grace time is over. */
  | 'SHUTTING_DOWN'
  /** A {@link JobWaitError}: the time limit was over before the job had ended. The job goes on. */
  | 'WAIT_TIMEOUT'
  /** A {@link JobWaitError}: the job failed for good. */
  | 'JOB_FAILED'
  /** A {@link JobWaitError}: there is no such job, or not any more. */
  | 'JOB_NOT_FOUND'
  /** The job's result is not kept. Thrown by `enqueueAndWait` before any SQL where the handler says so, else a {@link JobWaitError}. */
  | 'RESULT_NOT_KEPT';

/**
 * The one family of errors that this package throws by itself. The message is a sentence that names
 * what is at fault and then says what to do; `code` is for programs.
 */
export class PgQueueError extends Error {
  override readonly name: string = 'PgQueueError';

  constructor(
    readonly code: PgQueueErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Bad input to `enqueue`: `path` says where, such as `payload.items[2].name`. */
export class InvalidJobError extends PgQueueError {
  override readonly name = 'InvalidJobError';

  constructor(
    readonly path: string,
    problem: string,
  ) {
    super('INVALID_JOB', `${path} ${problem}`);
  }
}

/** Why `waitFor` or `enqueueAndWait` has no result. The `code` says which of the reasons it is. */
export class JobWaitError extends PgQueueError {
  override readonly name = 'JobWaitError';

  constructor(
    code: PgQueueErrorCode,
    message: string,
    readonly jobId: string,
    /** The job as it ended, with `lastError` and `errors`; undefined if it has not, or left no row. */
    readonly job: JobRecord | undefined,
    options?: ErrorOptions,
  ) {
    super(code, message, options);
  }
}

/** A dedupe key was taken, and the enqueue said `onDuplicate: 'throw'`. The transaction stays usable. */
export class DuplicateJobError extends PgQueueError {
  override readonly name = 'DuplicateJobError';

  constructor(
    kind: string,
    key: string,
    /** The id of the job that has the key, or had it within the `ttl`. */
    readonly holder: string,
  ) {
    super(
      'DUPLICATE_JOB',
      `The job ${holder} of kind ${kind} has the dedupe key ${JSON.stringify(key)}. Nothing was added: leave out \`onDuplicate: 'throw'\` to be answered its id instead.`,
    );
  }
}
