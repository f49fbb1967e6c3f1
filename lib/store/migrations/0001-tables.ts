/** The tables. Each is written for psql: replace nothing and it runs as it stands for the default schema. */
export const tables = /* sql */ `
-- What is pending, and nothing else, so that it stays small and hot.
-- A claim is a HOT update: no index below, and no index predicate, names a column that a claim changes
-- (locked_by, attempts, lease_no, status), and more than half of each page is kept free: a version that
-- names its worker is 16 bytes longer, so at a fillfactor of 50 the claim of every tenth small job was not HOT.
create table pgqueue.jobs (
  id           bigint generated always as identity primary key,
  queue        text not null default 'default' check (octet_length(queue) between 1 and 255),
  kind         text not null check (octet_length(kind) between 1 and 255),
  payload      jsonb not null default '{}',
  waits_for    text check (waits_for in ('time', 'handler', 'slot')),
  parked_on    text,
  status       text not null generated always as (
                 case when locked_by is not null then 'running'
                      when waits_for is null then 'queued'
                      when waits_for = 'time' then 'scheduled'
                      else 'waiting' end) stored,
  priority     smallint not null default 0,
  run_at       timestamptz not null default now(),
  attempts     int not null default 0,
  max_attempts int not null default 5,
  lease_no     int not null default 0,
  locked_by    uuid,
  dedupe_key   text check (octet_length(dedupe_key) between 1 and 1024),
  last_error   text,
  errors       jsonb check (jsonb_typeof(errors) = 'array'),
  meta         jsonb,
  created_at   timestamptz not null default now()
) with (
  fillfactor = 45,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05,
  vacuum_truncate = off
);
create index jobs_ready on pgqueue.jobs (queue, priority, run_at, id) where waits_for is null;
create index jobs_due on pgqueue.jobs (run_at) where waits_for = 'time';
create index jobs_parked on pgqueue.jobs (parked_on, priority, run_at, id) where waits_for = 'slot';
create unique index jobs_dedupe on pgqueue.jobs (kind, dedupe_key) where dedupe_key is not null;

comment on table pgqueue.jobs is 'Pending jobs. An insert with a kind and a payload is a complete enqueue.';
comment on column pgqueue.jobs.waits_for is 'What the job waits for besides a free worker; null = nothing.';
comment on column pgqueue.jobs.parked_on is 'The limit, and its value, that had no room: waits_for is slot.';
comment on column pgqueue.jobs.lease_no is 'Counts the claims and is never reset: the fencing token.';
comment on column pgqueue.jobs.locked_by is 'The worker that holds the job.';
comment on column pgqueue.jobs.dedupe_key is 'At most one pending job per (kind, dedupe_key).';

-- The dead letters: work that waits for a person.
create table pgqueue.failed_jobs (
  id           bigint primary key,
  queue        text not null,
  kind         text not null,
  payload      jsonb not null,
  priority     smallint not null,
  run_at       timestamptz not null,
  attempts     int not null,
  max_attempts int not null,
  lease_no     int not null,
  locked_by    uuid,
  dedupe_key   text,
  last_error   text,
  errors       jsonb,
  meta         jsonb,
  created_at   timestamptz not null,
  failed_at    timestamptz not null
);
create index failed_jobs_failed_at on pgqueue.failed_jobs (failed_at);
comment on column pgqueue.failed_jobs.locked_by is 'The worker that reported the failure; null if it died.';

-- History, a partition a day (UTC), so that retention drops tables instead of deleting rows.
-- There is no default partition: it would forbid DETACH CONCURRENTLY. Rows that find no day go to the
-- overflow table, which all_jobs includes.
create table pgqueue.done_jobs (
  id           bigint not null,
  queue        text not null,
  kind         text not null,
  payload      jsonb not null,
  status       text not null check (status in ('done', 'cancelled')),
  priority     smallint not null,
  run_at       timestamptz not null,
  attempts     int not null,
  max_attempts int not null,
  lease_no     int not null,
  locked_by    uuid,
  dedupe_key   text,
  last_error   text,
  errors       jsonb,
  meta         jsonb,
  created_at   timestamptz not null,
  finished_at  timestamptz not null,
  result       jsonb
) partition by range (finished_at);
create index done_jobs_id on pgqueue.done_jobs (id);
create table pgqueue.done_jobs_overflow (like pgqueue.done_jobs including constraints);
create index done_jobs_overflow_id on pgqueue.done_jobs_overflow (id);

create view pgqueue.all_jobs as
  select id, queue, kind, status, payload, priority, run_at, attempts, max_attempts, locked_by,
         dedupe_key, last_error, errors, meta, created_at, null::timestamptz as finished_at,
         null::jsonb as result
    from pgqueue.jobs
  union all
  select id, queue, kind, 'failed', payload, priority, run_at, attempts, max_attempts, locked_by,
         dedupe_key, last_error, errors, meta, created_at, failed_at, null
    from pgqueue.failed_jobs
  union all
  select id, queue, kind, status, payload, priority, run_at, attempts, max_attempts, locked_by,
         dedupe_key, last_error, errors, meta, created_at, finished_at, result
    from pgqueue.done_jobs
  union all
  select id, queue, kind, status, payload, priority, run_at, attempts, max_attempts, locked_by,
         dedupe_key, last_error, errors, meta, created_at, finished_at, result
    from pgqueue.done_jobs_overflow;
comment on view pgqueue.all_jobs is 'Every job, wherever it stands, with one status column.';

-- One row per worker: one start of a process that works. The lease belongs to this row, not to each job.
create table pgqueue.workers (
  id          uuid primary key,
  name        text not null,
  host        text not null,
  pid         int not null,
  version     text not null,
  queues      text[] not null,
  kinds       text[] not null,
  epoch       int not null default 0,
  started_at  timestamptz not null default now(),
  seen_at     timestamptz not null default now(),
  lease_until timestamptz not null,
  dead_at     timestamptz
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
comment on column pgqueue.workers.epoch is 'Which of its connections may claim: +1 at every reconnect.';
comment on column pgqueue.workers.dead_at is 'Set once, when the lease had ended; only then are its jobs freed.';

create table pgqueue.queues (
  name       text primary key,
  paused_at  timestamptz,
  created_at timestamptz not null default now()
);
comment on column pgqueue.queues.paused_at is 'Not null = no job of the queue is begun.';

-- Leaderless housekeeping: whoever moves next_at does the task.
create table pgqueue.maintenance (
  task    text primary key,
  next_at timestamptz not null default now()
);
insert into pgqueue.maintenance (task) values ('history'), ('failed'), ('strays'), ('handlers');
`;
