import type { ArgumentsHost, ContextType } from '@nestjs/common';
import { PgQueueError } from '../contracts/errors.js';
import type { JobContext, JobKind } from '../contracts/job.js';
import { JOB_ARGUMENT, JOB_CONTEXT_TYPE } from './metadata.js';

/** What `context.getType()` answers in a guard, interceptor, pipe or filter while a job runs. */
export type JobExecutionType = typeof JOB_CONTEXT_TYPE;

/** Whether a guard, interceptor or filter runs for a job, and not for HTTP or anything else. */
export function isJobExecution(context: ArgumentsHost): boolean {
  return context.getType<ContextType | JobExecutionType>() === JOB_CONTEXT_TYPE;
}

/**
 * The job that a guard, interceptor or filter runs for.
 * @throws PgQueueError `INVALID_ARGUMENT` outside of a job; ask {@link isJobExecution} first.
 */
export function getJob<K extends JobKind = JobKind>(context: ArgumentsHost): JobContext<K> {
  if (isJobExecution(context)) return context.getArgByIndex<JobContext<K>>(JOB_ARGUMENT);
  throw new PgQueueError(
    'INVALID_ARGUMENT',
    `getJob was called in a context of type '${context.getType()}', where there is no job. Ask isJobExecution(context) first.`,
  );
}
