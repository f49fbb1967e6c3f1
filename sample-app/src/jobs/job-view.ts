import type { JobRecord } from 'nestjs-pg-queue';

export type JobView = Pick<
  JobRecord,
  'id' | 'kind' | 'status' | 'attempts' | 'maxAttempts' | 'runAt' | 'lastError' | 'result'
>;

/** What clients may see of a job. Not the payload: it can hold personal data. */
export function jobView(job: JobRecord): JobView {
  const { id, kind, status, attempts, maxAttempts, runAt, lastError, result } = job;
  return { id, kind, status, attempts, maxAttempts, runAt, lastError, result };
}
