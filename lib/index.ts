// The public names, one by one.
export type { BackoffOptions, RetryableRule } from './contracts/backoff.js';
export type { Duration } from './contracts/duration.js';
export type { EnqueueOptions, EnqueueResult, JobOptions, NewJob } from './contracts/enqueue.js';
export { InvalidJobError, PgQueueError, type PgQueueErrorCode } from './contracts/errors.js';
export type { JobHandlerOptions } from './contracts/handler.js';
export type {
  JobContext,
  JobErrorRecord,
  JobKind,
  JobRecord,
  JobStatus,
  PayloadOf,
} from './contracts/job.js';
export type { JobKinds } from './contracts/job-kinds.js';
export type { PgQueueOptions, PoolLike, WorkerOptions } from './contracts/options.js';
export type {
  CancelOutcome,
  DrainOptions,
  DrainResult,
  FailedFilter,
  JobCounts,
  RetryResult,
} from './contracts/queue.js';
export type {
  CatchUp,
  JobScheduleOptions,
  NewSchedule,
  ScheduleChanges,
  ScheduleOptions,
  ScheduleRecord,
  ScheduleTimes,
} from './contracts/schedule.js';
export type { QueueTransaction, TransactionHandle } from './contracts/transaction.js';
export { CancelJob, RetryAt, SnoozeJob, UnrecoverableError } from './contracts/verdicts.js';
export { getQueueToken, InjectQueue } from './decorators/inject-queue.decorator.js';
export { getJob, isJobExecution, type JobExecutionType } from './decorators/job-execution.js';
export { JobHandler } from './decorators/job-handler.decorator.js';
export { JobSchedule } from './decorators/job-schedule.decorator.js';
export { CurrentJob, JobPayload } from './decorators/job-parameters.decorator.js';
export { PgQueueModule } from './pg-queue.module.js';
export { QueueService } from './queue/queue.service.js';
export type { QueueSchedules } from './queue/schedules.js';
