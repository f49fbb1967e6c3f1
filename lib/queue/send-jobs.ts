import type { JobEventSink } from '../contracts/job-events.js';
import type { TransactionHandle } from '../contracts/transaction.js';
import type { JobStore } from '../store/job-store.js';
import type { EnqueuedRow, JobRow } from '../store/statements/enqueue-many.js';

interface EnqueueCall {
  readonly tx?: TransactionHandle | undefined;
  readonly lockTimeout?: number | undefined;
  readonly allOrNothing?: boolean | undefined;
}

interface Ports {
  readonly store: Pick<JobStore, 'enqueueMany'>;
  readonly events: JobEventSink;
}

/** Sends jobs in one statement, and tells of those that are new. */
export async function sendJobs(
  { store, events }: Ports,
  jobs: readonly JobRow[],
  options: EnqueueCall,
): Promise<EnqueuedRow[]> {
  const answers = await store.enqueueMany(jobs, options);
  if (events.isObserved) {
    for (const { ordinal, id, inserted } of answers) {
      const job = jobs[ordinal];
      if (!inserted || id === null || job === undefined) continue;
      const { kind, queue } = job;
      events.emit({ type: 'enqueued', id, kind, queue, committed: options.tx === undefined });
    }
  }
  return answers;
}
