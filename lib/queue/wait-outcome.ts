import { JobWaitError } from '../contracts/errors.js';
import { reasonNotStored } from '../contracts/result-marker.js';
import type { FoundJob } from '../store/statements/job-records.js';

/** What a wait ends with; undefined = it goes on. */
export type WaitOutcome =
  { readonly value: unknown } | { readonly error: JobWaitError } | undefined;

/**
 * What a look at a job means for those who wait for it. A function of its inputs.
 * @param wasSeen whether the job is known to have existed
 * @param found its row, wherever it stands; undefined if it has none
 */
export function waitOutcome(
  id: string,
  wasSeen: boolean,
  found: FoundJob | undefined,
): WaitOutcome {
  if (found === undefined) return { error: wasSeen ? leftNoRow(id) : notFound(id) };
  const { job, hasResult } = found;
  const what = `Job ${id} (${job.kind})`;
  switch (job.status) {
    case 'done': {
      const reason = reasonNotStored(job.result);
      if (reason === undefined) return { value: hasResult ? job.result : undefined };
      const message = `${what} has succeeded, but its result is not kept: ${reason}. Let its handler return something smaller, such as the key of a row.`;
      return { error: new JobWaitError('RESULT_NOT_KEPT', message, id, job) };
    }
    case 'failed': {
      const message = `${what} failed for good after ${job.attempts} attempts: ${job.lastError}. The \`job\` of this error has the others; queue.retry('${id}') starts it again.`;
      return { error: new JobWaitError('JOB_FAILED', message, id, job) };
    }
    case 'cancelled': {
      const reason = job.lastError === null ? '' : `: ${job.lastError}`;
      const message = `${what} was cancelled${reason}. Enqueue it again if it is still wanted.`;
      return { error: new JobWaitError('JOB_CANCELLED', message, id, job) };
    }
    default:
      return undefined;
  }
}

/** The error of a wait whose time is over. `cause` is what kept it from looking, if that was so. */
export function waitTimedOut(id: string, timeout: number, cause: unknown): JobWaitError {
  const message = `Job ${id} had not ended within ${Math.round(timeout)} ms. It goes on: wait again with waitFor('${id}'), or give a longer timeout.`;
  const options = cause === undefined ? undefined : { cause };
  return new JobWaitError('WAIT_TIMEOUT', message, id, undefined, options);
}

function notFound(id: string): JobWaitError {
  return new JobWaitError(
    'JOB_NOT_FOUND',
    `There is no job ${id}: it was never committed, or its history is over. Wait for ids that \`enqueue\` answered, after their transaction has committed.`,
    id,
    undefined,
  );
}

function leftNoRow(id: string): JobWaitError {
  return new JobWaitError(
    'RESULT_NOT_KEPT',
    `Job ${id} has ended and left no row, since its kind keeps no history. Wait only for kinds whose \`keepDone\` is not false.`,
    id,
    undefined,
  );
}
