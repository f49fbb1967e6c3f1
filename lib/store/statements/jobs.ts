import type { CancelOutcome, FailedFilter, PendingFilter } from '../../contracts/queue.js';
import { number, statement, text } from '../statement.js';

const FAILED = /* sql */ `
    from pgqueue.failed_jobs
   where ($1::text is null or kind = $1)
     and ($2::text is null or queue = $2)
     and ($3::timestamptz is null or failed_at >= $3)
     and ($4::timestamptz is null or failed_at < $4)`;

const failedValues = ({ kind, queue, failedAfter, failedBefore }: FailedFilter) => [
  kind ?? null,
  queue ?? null,
  failedAfter?.toISOString() ?? null,
  failedBefore?.toISOString() ?? null,
];

/** Ids of failed jobs after `after`, in order, so that a walk in batches ends although some stay. */
export const failedIds = statement<{ filter: FailedFilter; after: string; limit: number }, string>({
  text: `select id ${FAILED} and id > $5::bigint order by id limit $6::int`,
  values: ({ filter, after, limit }) => [...failedValues(filter), after, limit],
  row: (row) => text(row, 'id'),
});

export const countFailed = statement<FailedFilter, number>({
  text: `select count(*) as count ${FAILED}`,
  values: failedValues,
  row: (row) => number(row, 'count'),
});

/** Pending jobs that do not run. */
const PENDING = /* sql */ `
    from pgqueue.jobs
   where locked_by is null
     and ($1::text is null or kind = $1)
     and ($2::text is null or queue = $2)
     and ($3::timestamptz is null or created_at >= $3)
     and ($4::timestamptz is null or created_at < $4)`;

const pendingValues = ({ kind, queue, createdAfter, createdBefore }: PendingFilter) => [
  kind ?? null,
  queue ?? null,
  createdAfter?.toISOString() ?? null,
  createdBefore?.toISOString() ?? null,
];

/** The same of pending jobs. */
export const pendingIds = statement<
  { filter: PendingFilter; after: string; upto: string; limit: number },
  string
>({
  text: `select id ${PENDING} and id > $5::bigint and id <= $6::bigint order by id limit $7::int`,
  values: ({ filter, after, upto, limit }) => [...pendingValues(filter), after, upto, limit],
  row: (row) => text(row, 'id'),
});

export const countPending = statement<PendingFilter, number>({
  text: `select count(*) as count ${PENDING}`,
  values: pendingValues,
  row: (row) => number(row, 'count'),
});

/** The end of a walk that is to end although new jobs come. */
export const lastJobId = statement<void, string>({
  text: 'select coalesce(max(id), 0) as id from pgqueue.jobs',
  values: () => [],
  row: (row) => text(row, 'id'),
});

/** How many were cancelled, see migrations/0009-pause. */
export const cancelMany = statement<readonly string[], number>({
  text: 'select pgqueue.cancel_many_v1($1::bigint[]) as count',
  values: (ids) => [ids],
  row: (row) => number(row, 'count'),
});

/** See migrations/0006-by-hand. */
export interface RetriedRow {
  readonly id: string;
  readonly outcome: 'retried' | 'conflict' | 'not_failed';
  readonly holder: string | null;
}

export const retryMany = statement<readonly string[], RetriedRow>({
  text: 'select id, outcome, holder from pgqueue.retry_many_v1($1::bigint[]) order by id',
  values: (ids) => [ids],
  row: (row) => ({
    id: text(row, 'id'),
    outcome: text(row, 'outcome') as RetriedRow['outcome'],
    holder: row.holder ?? null,
  }),
});

export const cancel = statement<string, CancelOutcome>({
  text: 'select pgqueue.cancel($1::bigint) as outcome',
  values: (id) => [id],
  row: (row) => text(row, 'outcome') as CancelOutcome,
});

/**
 * Rows of what is pending or failed, by status; `waitsFor` is `resume` where a job of a paused kind is set aside.
 * History is not counted: it may be large.
 */
export const countJobs = statement<
  void,
  { status: string; waitsFor: string | null; count: number }
>({
  text: /* sql */ `
    select status, waits_for, count(*) as count
      from (select status, case when waits_for = 'handler' and kind = any (pgqueue.paused_kinds())
                             then 'resume' else waits_for end as waits_for from pgqueue.jobs) as j
     group by status, waits_for
    union all
    select 'failed', null, count(*) from pgqueue.failed_jobs`,
  values: () => [],
  row: (row) => ({
    status: text(row, 'status'),
    waitsFor: row.waits_for ?? null,
    count: number(row, 'count'),
  }),
});
