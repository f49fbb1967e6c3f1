import { number, statement, text } from '../statement.js';

/** The attempt that something is about: `leaseNo` counts the claims of a job. */
export interface AttemptKey {
  readonly id: string;
  readonly leaseNo: number;
}

/** Which of these jobs somebody asked to cancel. */
export const cancelRequests = statement<readonly string[], AttemptKey>({
  text: /* sql */ `
    select id, lease_no from pgqueue.jobs
     where id = any ($1::bigint[]) and cancel_requested_at is not null`,
  values: (ids) => [ids],
  row: (row) => ({ id: text(row, 'id'), leaseNo: number(row, 'lease_no') }),
});

/** An attempt that completes its job in its own transaction. */
export interface Completion extends AttemptKey {
  readonly worker: string;
  /** Whether the job goes to the history. */
  readonly keep: boolean;
  /** JSON text; undefined = no result. */
  readonly result: string | undefined;
}

/** See pgqueue.complete_v1. Everything as text, since it runs on a client whose type parsers are not ours. */
export const complete = statement<Completion, 'done' | 'cancelled' | 'lost'>({
  text: /* sql */ `
    select pgqueue.complete_v1($1::uuid, $2::bigint, $3::int, $4::boolean, $5::text) as outcome`,
  values: ({ worker, id, leaseNo, keep, result }) => [worker, id, leaseNo, keep, result ?? null],
  row: (row) => text(row, 'outcome') as 'done' | 'cancelled' | 'lost',
});

/** How far an attempt has come; JSON text. */
export interface ProgressValue extends AttemptKey {
  readonly value: string;
}

/** Writes values of attempts that run, and removes those of attempts that have ended. */
export const writeProgress = statement<{
  readonly values: readonly ProgressValue[];
  readonly ended: readonly AttemptKey[];
}>({
  text: 'select pgqueue.progress_v1($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::jsonb[])',
  values: ({ values, ended }) => [
    ended.map(({ id }) => id),
    ended.map(({ leaseNo }) => leaseNo),
    values.map(({ id }) => id),
    values.map(({ leaseNo }) => leaseNo),
    values.map(({ value }) => value),
  ],
  row: () => undefined,
});

/** Removes a bounded number of rows that a worker left when it died; answers how many. */
export const deleteProgress = statement<number, number>({
  text: /* sql */ `
    with old as (
      delete from pgqueue.job_progress where job_id = any (array(
        select p.job_id from pgqueue.job_progress p
         where not exists (select from pgqueue.jobs j where j.id = p.job_id and j.lease_no = p.lease_no)
         limit $1::int for update skip locked))
      returning 1)
    select count(*) as count from old`,
  values: (limit) => [limit],
  row: (row) => number(row, 'count'),
});

/** Cancels jobs that wait after their deadline; answers how many deadlines it went through. */
export const expire = statement<number, number>({
  text: 'select pgqueue.expire_v1($1::int) as count',
  values: (limit) => [limit],
  row: (row) => number(row, 'count'),
});
