// The public names, one by one.
export type { BackoffOptions, RetryableRule } from './contracts/backoff.js';
export type { Duration } from './contracts/duration.js';
export type {
  DedupeOptions,
  EnqueueOptions,
  EnqueueResult,
  JobOptions,
  NewJob,
} from './contracts/enqueue.js';
export {
  DuplicateJobError,
  InvalidJobError,
  JobWaitError,
  PgQueueError,
  type PgQueueErrorCode,
} from './contracts/errors.js';
export type { HandlerLimit, JobHandlerOptions, StillNeededRule } from './contracts/handler.js';
export type {
  JobContext,
  JobErrorRecord,
  JobKind,
  JobRecord,
  JobStatus,
  PayloadOf,
  ResultOf,
} from './contracts/job.js';
export type {
  JobCancelledEvent,
  JobCompletedEvent,
  JobEnqueuedEvent,
  JobEvent,
  JobEventError,
  JobEventOf,
  JobEventOptions,
  JobEventType,
  JobFailedEvent,
  JobLeaseLostEvent,
  JobReleasedEvent,
  JobRetriedEvent,
  JobStartedEvent,
} from './contracts/job-events.js';
export type { Limit, LimitOptions, LimitRecord } from './contracts/limits.js';
export type { JobKinds, JobResults } from './contracts/job-kinds.js';
export type { PgQueueOptions, PoolLike, WorkerOptions } from './contracts/options.js';
export type {
  BulkOptions,
  BulkResult,
  CancelOutcome,
  DrainOptions,
  DrainResult,
  FailedFilter,
  JobCounts,
  PausedKind,
  PauseTarget,
  PendingFilter,
  QueueRecord,
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
export type { EnqueueAndWaitOptions, WaitOptions } from './contracts/wait.js';
export { getQueueToken, InjectQueue } from './decorators/inject-queue.decorator.js';
export { getJob, isJobExecution, type JobExecutionType } from './decorators/job-execution.js';
export { JobHandler } from './decorators/job-handler.decorator.js';
export { JobSchedule } from './decorators/job-schedule.decorator.js';
export { CurrentJob, JobPayload } from './decorators/job-parameters.decorator.js';
export { OnJobEvent } from './decorators/on-job-event.decorator.js';
export { PgQueueModule } from './pg-queue.module.js';
export type { Limits } from './queue/limits.js';
export { QueueService } from './queue/queue.service.js';
export type { QueueSchedules } from './queue/schedules.js';
