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
  /** The attempt ran longer than the handler's `timeout`. */
  | 'JOB_TIMEOUT'
  /** The process is stopping and the job's grace time is over. */
  | 'SHUTTING_DOWN';

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
