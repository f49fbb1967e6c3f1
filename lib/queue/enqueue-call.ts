import type { EnqueuedRow, JobRow } from '../store/statements/enqueue-many.js';

/** Sends jobs in one statement that commits; waits for a lock no longer than `lockTimeout` ms, if given. */
export type SendJobs = (
  jobs: readonly JobRow[],
  lockTimeout: number | undefined,
) => Promise<EnqueuedRow[]>;

/** One call of `enqueue` that waits for its answer. */
export interface EnqueueCall {
  readonly job: JobRow;
  readonly since: number;
  readonly resolve: (row: EnqueuedRow) => void;
  readonly reject: (error: unknown) => void;
}

/** The unit of dedupe: at most one pending job has it. */
export function keyOf({ job }: EnqueueCall): string {
  return JSON.stringify([job.kind, job.dedupeKey]);
}

/** PostgreSQL's lock_not_available: somebody held the lock for as long as we would wait. */
export const LOCK_NOT_AVAILABLE = '55P03';
