import type { JobErrorRecord, JobRecord, JobStatus } from '../../contracts/job.js';
import { epochMs, instant, json, number, statement, text, type TextRow } from '../statement.js';

/** What only a pending job has is not in the view. */
const RECORD = /* sql */ `
    select id, queue, kind, payload, status, priority, ${epochMs('run_at')} as run_at, attempts, max_attempts,
           locked_by, dedupe_key, last_error, errors, meta, ${epochMs('created_at')} as created_at,
           ${epochMs('finished_at')} as finished_at, result, deadline, cancel_requested_at, progress`;
const OF_PENDING = /* sql */ `
      left join lateral (
        select ${epochMs('deadline')} as deadline, ${epochMs('cancel_requested_at')} as cancel_requested_at,
               (select value from pgqueue.job_progress p
                 where p.job_id = jobs.id and p.lease_no = jobs.lease_no and jobs.locked_by is not null)
                 as progress
          from pgqueue.jobs where jobs.id = job.id) as pending on true`;

function jobRecord(row: TextRow): JobRecord {
  return {
    id: text(row, 'id'),
    queue: text(row, 'queue'),
    kind: text(row, 'kind'),
    payload: json(row, 'payload'),
    status: text(row, 'status') as JobStatus,
    priority: number(row, 'priority'),
    runAt: instant(row, 'run_at') as Date,
    attempts: number(row, 'attempts'),
    maxAttempts: number(row, 'max_attempts'),
    lockedBy: row.locked_by ?? null,
    dedupeKey: row.dedupe_key ?? null,
    lastError: row.last_error ?? null,
    errors: (json(row, 'errors') as JobErrorRecord[] | null) ?? [],
    meta: json(row, 'meta') as Record<string, unknown> | null,
    createdAt: instant(row, 'created_at') as Date,
    finishedAt: instant(row, 'finished_at'),
    result: json(row, 'result'),
    deadline: instant(row, 'deadline'),
    cancelRequestedAt: instant(row, 'cancel_requested_at'),
    progress: json(row, 'progress'),
  };
}

/** One statement over the view: three would miss a job that moves between them. */
export const getJob = statement<string, JobRecord>({
  text: `${RECORD} from pgqueue.all_jobs as job ${OF_PENDING} where id = $1::bigint`,
  values: (id) => [id],
  row: jobRecord,
});

/** A job, and whether its handler returned anything: JSON's null is a result, no value is none. */
export interface FoundJob {
  readonly job: JobRecord;
  readonly hasResult: boolean;
}

/**
 * The same for several, each looked up by itself: by a list of 100 ids a day of history without statistics was
 * read as a whole. If ids were reset and an id stands for two jobs, the later one counts: it comes last, and a
 * pending one after those that have ended.
 */
export const getJobs = statement<readonly string[], FoundJob>({
  text: /* sql */ `
    ${RECORD}
      from unnest($1::bigint[]) as asked(asked_id)
     cross join lateral (select * from pgqueue.all_jobs where id = asked_id offset 0) as job
      ${OF_PENDING}
     order by job.finished_at nulls last`,
  values: (ids) => [ids],
  row: (row) => ({ job: jobRecord(row), hasResult: row.result !== null }),
});

/** Which of the ids are pending: what a wait asks again and again, by the primary key alone. */
export const stillPending = statement<readonly string[], string>({
  text: 'select id from pgqueue.jobs where id = any ($1::bigint[])',
  values: (ids) => [ids],
  row: (row) => text(row, 'id'),
});
