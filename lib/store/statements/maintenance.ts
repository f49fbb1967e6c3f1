import { number, statement, text } from '../statement.js';

/** The tasks of which exactly one process does each tick. */
export type Task =
  'history' | 'failed' | 'strays' | 'handlers' | 'slots' | 'deadlines' | 'progress' | 'dedupe';

/** Answers a row if the tick is ours: whoever moves `next_at` does the task. */
export const takeTask = statement<{ task: Task; interval: number }, Task>({
  text: /* sql */ `
    update pgqueue.maintenance
       set next_at = clock_timestamp() + $2::float8 * interval '1 ms'
     where task = $1 and next_at <= clock_timestamp()
    returning task`,
  values: ({ task, interval }) => [task, interval],
  row: (row) => text(row, 'task') as Task,
});

/** Deletes a bounded number of old dead letters, answers how many. */
export const deleteFailed = statement<{ olderThan: number; limit: number }, number>({
  text: /* sql */ `
    with old as (
      delete from pgqueue.failed_jobs where id = any (array(
        select id from pgqueue.failed_jobs
         where failed_at < clock_timestamp() - $1::float8 * interval '1 ms'
         order by failed_at limit $2::int for update skip locked))
      returning 1)
    select count(*) as count from old`,
  values: ({ olderThan, limit }) => [olderThan, limit],
  row: (row) => number(row, 'count'),
});

/** The same for history that found no partition. */
export const deleteOverflow = statement<{ olderThan: number; limit: number }, number>({
  text: /* sql */ `
    with old as (
      delete from pgqueue.done_jobs_overflow where ctid = any (array(
        select ctid from pgqueue.done_jobs_overflow
         where finished_at < clock_timestamp() - $1::float8 * interval '1 ms'
         limit $2::int for update skip locked))
      returning 1)
    select count(*) as count from old`,
  values: ({ olderThan, limit }) => [olderThan, limit],
  row: (row) => number(row, 'count'),
});

/** Deletes a bounded number of dedupe windows that are over, answers how many. */
export const deleteDedupeWindows = statement<number, number>({
  text: /* sql */ `
    with old as (
      delete from pgqueue.dedupe_windows where ctid = any (array(
        select ctid from pgqueue.dedupe_windows
         where until < clock_timestamp()
         order by until limit $1::int for update skip locked))
      returning 1)
    select count(*) as count from old`,
  values: (limit) => [limit],
  row: (row) => number(row, 'count'),
});
