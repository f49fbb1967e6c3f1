-- What all migrations together make, as PostgreSQL 18 describes it.
-- Written by "npm run schema:dump": change it by a migration.

create table pgqueue.deadlines (
  job_id bigint not null,
  look_at timestamp with time zone not null,
  constraint deadlines_pkey PRIMARY KEY (job_id)
);
CREATE INDEX deadlines_look_at ON pgqueue.deadlines USING btree (look_at);

create table pgqueue.dedupe_windows (
  kind text not null,
  dedupe_key text not null,
  job_id bigint,
  until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  constraint dedupe_windows_pkey PRIMARY KEY (kind, dedupe_key)
);
CREATE INDEX dedupe_windows_until ON pgqueue.dedupe_windows USING btree (until);
comment on table pgqueue.dedupe_windows is 'Of each key one job until the given time, by enqueues with a ttl.';

create table pgqueue.done_jobs (
  id bigint not null,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  status text not null,
  priority smallint not null,
  run_at timestamp with time zone not null,
  attempts integer not null,
  max_attempts integer not null,
  lease_no integer not null,
  locked_by uuid,
  dedupe_key text,
  last_error text,
  errors jsonb,
  meta jsonb,
  created_at timestamp with time zone not null,
  finished_at timestamp with time zone not null,
  result jsonb,
  constraint done_jobs_status_check CHECK ((status = ANY (ARRAY['done'::text, 'cancelled'::text])))
)
partition by RANGE (finished_at);
CREATE INDEX done_jobs_id ON ONLY pgqueue.done_jobs USING btree (id);

create table pgqueue.done_jobs_overflow (
  id bigint not null,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  status text not null,
  priority smallint not null,
  run_at timestamp with time zone not null,
  attempts integer not null,
  max_attempts integer not null,
  lease_no integer not null,
  locked_by uuid,
  dedupe_key text,
  last_error text,
  errors jsonb,
  meta jsonb,
  created_at timestamp with time zone not null,
  finished_at timestamp with time zone not null,
  result jsonb,
  constraint done_jobs_status_check CHECK ((status = ANY (ARRAY['done'::text, 'cancelled'::text])))
);
CREATE INDEX done_jobs_overflow_id ON pgqueue.done_jobs_overflow USING btree (id);

create table pgqueue.failed_jobs (
  id bigint not null,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  priority smallint not null,
  run_at timestamp with time zone not null,
  attempts integer not null,
  max_attempts integer not null,
  lease_no integer not null,
  locked_by uuid,
  dedupe_key text,
  last_error text,
  errors jsonb,
  meta jsonb,
  created_at timestamp with time zone not null,
  failed_at timestamp with time zone not null,
  constraint failed_jobs_pkey PRIMARY KEY (id)
);
CREATE INDEX failed_jobs_failed_at ON pgqueue.failed_jobs USING btree (failed_at);
comment on column pgqueue.failed_jobs.locked_by is 'The worker that reported the failure; null if it died.';

create table pgqueue.holds (
  job_id bigint not null,
  key text not null,
  worker uuid not null,
  constraint holds_pkey PRIMARY KEY (job_id, key)
);
CREATE INDEX holds_key ON pgqueue.holds USING btree (key);

create table pgqueue.job_progress (
  job_id bigint not null,
  lease_no integer not null,
  value jsonb not null,
  written_at timestamp with time zone not null default now(),
  constraint job_progress_pkey PRIMARY KEY (job_id)
)
with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 200,
  fillfactor = 50
);

create table pgqueue.jobs (
  id bigint not null generated always as identity,
  queue text not null default 'default'::text,
  kind text not null,
  payload jsonb not null default '{}'::jsonb,
  waits_for text,
  parked_on text,
  status text not null generated always as (
CASE
    WHEN (locked_by IS NOT NULL) THEN 'running'::text
    WHEN (waits_for IS NULL) THEN 'queued'::text
    WHEN (waits_for = 'time'::text) THEN 'scheduled'::text
    ELSE 'waiting'::text
END) stored,
  priority smallint not null default 0,
  run_at timestamp with time zone not null default now(),
  attempts integer not null default 0,
  max_attempts integer not null default 5,
  lease_no integer not null default 0,
  locked_by uuid,
  dedupe_key text,
  last_error text,
  errors jsonb,
  meta jsonb,
  created_at timestamp with time zone not null default now(),
  cancel_requested_at timestamp with time zone,
  deadline timestamp with time zone,
  dedupe_until text,
  constraint jobs_pkey PRIMARY KEY (id),
  constraint jobs_dedupe_key_check CHECK (((octet_length(dedupe_key) >= 1) AND (octet_length(dedupe_key) <= 1024))),
  constraint jobs_dedupe_until_check CHECK ((dedupe_until = 'started'::text)),
  constraint jobs_errors_check CHECK ((jsonb_typeof(errors) = 'array'::text)),
  constraint jobs_kind_check CHECK (((octet_length(kind) >= 1) AND (octet_length(kind) <= 255))),
  constraint jobs_queue_check CHECK (((octet_length(queue) >= 1) AND (octet_length(queue) <= 255))),
  constraint jobs_waits_for_check CHECK ((waits_for = ANY (ARRAY['time'::text, 'handler'::text, 'slot'::text])))
)
with (
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  fillfactor = 45,
  vacuum_truncate = off
);
CREATE UNIQUE INDEX jobs_dedupe ON pgqueue.jobs USING btree (kind, dedupe_key) WHERE (dedupe_key IS NOT NULL);
CREATE INDEX jobs_due ON pgqueue.jobs USING btree (run_at) WHERE (waits_for = 'time'::text);
CREATE INDEX jobs_parked ON pgqueue.jobs USING btree (parked_on, priority, run_at, id) WHERE (waits_for = 'slot'::text);
CREATE INDEX jobs_ready ON pgqueue.jobs USING btree (queue, priority, run_at, id) WHERE (waits_for IS NULL);
CREATE TRIGGER jobs_ring AFTER INSERT ON pgqueue.jobs REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION pgqueue.ring();
CREATE TRIGGER jobs_schedule BEFORE INSERT OR UPDATE OF run_at ON pgqueue.jobs FOR EACH ROW WHEN (((new.run_at > now()) AND (new.waits_for IS NULL))) EXECUTE FUNCTION pgqueue.schedule();
comment on table pgqueue.jobs is 'Pending jobs. An insert with a kind and a payload is a complete enqueue.';
comment on column pgqueue.jobs.waits_for is 'What the job waits for besides a free worker; null = nothing.';
comment on column pgqueue.jobs.parked_on is 'The limit, and its value, that had no room: waits_for is slot.';
comment on column pgqueue.jobs.lease_no is 'Counts the claims and is never reset: the fencing token.';
comment on column pgqueue.jobs.locked_by is 'The worker that holds the job.';
comment on column pgqueue.jobs.dedupe_key is 'At most one pending job per (kind, dedupe_key).';
comment on column pgqueue.jobs.cancel_requested_at is 'Somebody asked for the end of the job while it ran: it is not run again, however its attempt ends.';
comment on column pgqueue.jobs.deadline is 'No attempt begins after this: the job is cancelled instead.';
comment on column pgqueue.jobs.dedupe_until is 'When the job gives up its dedupe key: started = at its first claim; null = when it is settled.';

create table pgqueue.kinds (
  name text not null,
  paused_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  constraint kinds_pkey PRIMARY KEY (name),
  constraint kinds_name_check CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 255)))
);
CREATE TRIGGER kinds_changed AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON pgqueue.kinds FOR EACH STATEMENT EXECUTE FUNCTION pgqueue.kinds_changed();
comment on table pgqueue.kinds is 'Kinds about which somebody has said something. Others need no row.';
comment on column pgqueue.kinds.paused_at is 'Not null = no job of the kind is begun, in any queue.';

create table pgqueue.limits (
  name text not null,
  queue text,
  kinds text[],
  by text[],
  max_running integer,
  rate_max integer,
  rate_per interval,
  rate_burst integer,
  declared jsonb,
  constraint limits_pkey PRIMARY KEY (name),
  constraint limits_check CHECK (((max_running IS NOT NULL) OR (rate_max IS NOT NULL))),
  constraint limits_check1 CHECK (((rate_max IS NULL) = (rate_per IS NULL))),
  constraint limits_check2 CHECK (((rate_burst IS NULL) OR (rate_max IS NOT NULL))),
  constraint limits_max_running_check CHECK ((max_running >= 0)),
  constraint limits_name_check CHECK ((((octet_length(name) >= 1) AND (octet_length(name) <= 200)) AND (name !~ '/'::text))),
  constraint limits_rate_burst_check CHECK ((rate_burst >= 1)),
  constraint limits_rate_max_check CHECK ((rate_max >= 1)),
  constraint limits_rate_per_check CHECK ((rate_per > '00:00:00'::interval))
);
CREATE TRIGGER limits_changed AFTER INSERT OR DELETE OR UPDATE ON pgqueue.limits FOR EACH STATEMENT EXECUTE FUNCTION pgqueue.limits_changed();
comment on column pgqueue.limits.by is 'A path into the payload; null = one count for all.';
comment on column pgqueue.limits.rate_burst is 'Null = never more than rate_max in any rate_per; else so many at once, and rate_max in rate_per on average.';
comment on column pgqueue.limits.declared is 'What the code of the application said last; a change by hand stays until the code says something else.';

create table pgqueue.maintenance (
  task text not null,
  next_at timestamp with time zone not null default now(),
  constraint maintenance_pkey PRIMARY KEY (task)
);

create table pgqueue.migrations (
  version integer not null,
  name text not null,
  applied_at timestamp with time zone not null default now(),
  constraint migrations_pkey PRIMARY KEY (version)
);

create table pgqueue.queues (
  name text not null,
  paused_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  concurrency integer,
  constraint queues_pkey PRIMARY KEY (name),
  constraint queues_concurrency_check CHECK ((concurrency >= 1))
);
CREATE TRIGGER queues_added AFTER INSERT ON pgqueue.queues FOR EACH ROW WHEN (((new.paused_at IS NOT NULL) OR (new.concurrency IS NOT NULL))) EXECUTE FUNCTION pgqueue.queue_changed();
CREATE TRIGGER queues_changed AFTER UPDATE ON pgqueue.queues FOR EACH ROW WHEN (((new.paused_at IS DISTINCT FROM old.paused_at) OR (new.concurrency IS DISTINCT FROM old.concurrency))) EXECUTE FUNCTION pgqueue.queue_changed();
CREATE TRIGGER queues_removed AFTER DELETE ON pgqueue.queues FOR EACH ROW WHEN (((old.paused_at IS NOT NULL) OR (old.concurrency IS NOT NULL))) EXECUTE FUNCTION pgqueue.queue_changed();
comment on column pgqueue.queues.paused_at is 'Not null = no job of the queue is begun.';
comment on column pgqueue.queues.concurrency is 'Slots of the queue in each worker process; null = as the options of the process say.';

create table pgqueue.rates (
  key text not null,
  tat timestamp with time zone not null,
  due_at timestamp with time zone,
  constraint rates_pkey PRIMARY KEY (key)
)
with (
  fillfactor = 50
);
CREATE INDEX rates_due ON pgqueue.rates USING btree (due_at) WHERE (due_at IS NOT NULL);

create table pgqueue.schedule_declarations (
  worker uuid not null,
  name text not null,
  declared_at timestamp with time zone not null,
  kind text not null,
  queue text not null,
  payload jsonb not null,
  priority smallint not null,
  max_attempts integer not null,
  cron text,
  every_ms bigint,
  time_zone text not null,
  starts_at timestamp with time zone,
  ends_at timestamp with time zone,
  catch_up text not null,
  constraint schedule_declarations_pkey PRIMARY KEY (name, worker)
);
comment on column pgqueue.schedule_declarations.declared_at is 'When the process began: the newest live one counts.';

create table pgqueue.schedule_slots (
  schedule text not null,
  slot timestamp with time zone not null,
  job_id bigint not null,
  fired_at timestamp with time zone not null default clock_timestamp(),
  constraint schedule_slots_pkey PRIMARY KEY (schedule, slot)
);

create table pgqueue.schedules (
  name text not null,
  kind text not null,
  queue text not null default 'default'::text,
  payload jsonb not null default '{}'::jsonb,
  priority smallint not null default 0,
  max_attempts integer not null default 5,
  cron text,
  every_ms bigint,
  time_zone text not null default 'UTC'::text,
  starts_at timestamp with time zone,
  ends_at timestamp with time zone,
  catch_up text not null default 'latest'::text,
  declared boolean not null default false,
  paused_at timestamp with time zone,
  turn integer not null default 0,
  handled_to timestamp with time zone not null default now(),
  next_at timestamp with time zone,
  last_slot timestamp with time zone,
  problem text,
  created_at timestamp with time zone not null default now(),
  constraint schedules_pkey PRIMARY KEY (name),
  constraint schedules_catch_up_check CHECK ((catch_up = ANY (ARRAY['skip'::text, 'latest'::text, 'all'::text]))),
  constraint schedules_check CHECK (((cron IS NULL) <> (every_ms IS NULL))),
  constraint schedules_every_ms_check CHECK ((every_ms >= 1000)),
  constraint schedules_kind_check CHECK (((octet_length(kind) >= 1) AND (octet_length(kind) <= 255))),
  constraint schedules_name_check CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 255))),
  constraint schedules_queue_check CHECK (((octet_length(queue) >= 1) AND (octet_length(queue) <= 255)))
)
with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 200,
  fillfactor = 50
);
CREATE TRIGGER schedules_changed BEFORE UPDATE OF kind, queue, payload, priority, max_attempts, cron, every_ms, time_zone, starts_at, ends_at, catch_up, paused_at ON pgqueue.schedules FOR EACH ROW WHEN (((((((((((((new.kind IS DISTINCT FROM old.kind) OR (new.queue IS DISTINCT FROM old.queue)) OR (new.payload IS DISTINCT FROM old.payload)) OR (new.priority IS DISTINCT FROM old.priority)) OR (new.max_attempts IS DISTINCT FROM old.max_attempts)) OR (new.cron IS DISTINCT FROM old.cron)) OR (new.every_ms IS DISTINCT FROM old.every_ms)) OR (new.time_zone IS DISTINCT FROM old.time_zone)) OR (new.starts_at IS DISTINCT FROM old.starts_at)) OR (new.ends_at IS DISTINCT FROM old.ends_at)) OR (new.catch_up IS DISTINCT FROM old.catch_up)) OR (new.paused_at IS DISTINCT FROM old.paused_at))) EXECUTE FUNCTION pgqueue.schedule_changed();
CREATE TRIGGER schedules_ring AFTER INSERT OR UPDATE OF kind, queue, cron, every_ms, time_zone, starts_at, ends_at, paused_at ON pgqueue.schedules FOR EACH STATEMENT EXECUTE FUNCTION pgqueue.ring_schedules();
comment on column pgqueue.schedules.declared is 'By @JobSchedule: it follows the newest live worker that declares it.';
comment on column pgqueue.schedules.turn is 'Counts changes: whoever decided by an older state does nothing.';
comment on column pgqueue.schedules.handled_to is 'Slots until then were fired, or left out.';
comment on column pgqueue.schedules.next_at is 'When to look at it next; null = at once, infinity = never.';
comment on column pgqueue.schedules.problem is 'Why it did not fire; it is tried again.';

create table pgqueue.workers (
  id uuid not null,
  name text not null,
  host text not null,
  pid integer not null,
  version text not null,
  queues text[] not null,
  kinds text[] not null,
  epoch integer not null default 0,
  started_at timestamp with time zone not null default now(),
  seen_at timestamp with time zone not null default now(),
  lease_until timestamp with time zone not null,
  dead_at timestamp with time zone,
  paused_kinds text[] not null default '{}'::text[],
  constraint workers_pkey PRIMARY KEY (id)
)
with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 200,
  fillfactor = 50
);
comment on column pgqueue.workers.epoch is 'Which of its connections may claim: +1 at every reconnect.';
comment on column pgqueue.workers.dead_at is 'Set once, when the lease had ended; only then are its jobs freed.';
comment on column pgqueue.workers.paused_kinds is 'Kinds that are paused, kept by a trigger of the table kinds.';

create view pgqueue.all_jobs as
 SELECT jobs.id,
    jobs.queue,
    jobs.kind,
    jobs.status,
    jobs.payload,
    jobs.priority,
    jobs.run_at,
    jobs.attempts,
    jobs.max_attempts,
    jobs.locked_by,
    jobs.dedupe_key,
    jobs.last_error,
    jobs.errors,
    jobs.meta,
    jobs.created_at,
    NULL::timestamp with time zone AS finished_at,
    NULL::jsonb AS result
   FROM pgqueue.jobs
UNION ALL
 SELECT failed_jobs.id,
    failed_jobs.queue,
    failed_jobs.kind,
    'failed'::text AS status,
    failed_jobs.payload,
    failed_jobs.priority,
    failed_jobs.run_at,
    failed_jobs.attempts,
    failed_jobs.max_attempts,
    failed_jobs.locked_by,
    failed_jobs.dedupe_key,
    failed_jobs.last_error,
    failed_jobs.errors,
    failed_jobs.meta,
    failed_jobs.created_at,
    failed_jobs.failed_at AS finished_at,
    NULL::jsonb AS result
   FROM pgqueue.failed_jobs
UNION ALL
 SELECT done_jobs.id,
    done_jobs.queue,
    done_jobs.kind,
    done_jobs.status,
    done_jobs.payload,
    done_jobs.priority,
    done_jobs.run_at,
    done_jobs.attempts,
    done_jobs.max_attempts,
    done_jobs.locked_by,
    done_jobs.dedupe_key,
    done_jobs.last_error,
    done_jobs.errors,
    done_jobs.meta,
    done_jobs.created_at,
    done_jobs.finished_at,
    done_jobs.result
   FROM pgqueue.done_jobs
UNION ALL
 SELECT done_jobs_overflow.id,
    done_jobs_overflow.queue,
    done_jobs_overflow.kind,
    done_jobs_overflow.status,
    done_jobs_overflow.payload,
    done_jobs_overflow.priority,
    done_jobs_overflow.run_at,
    done_jobs_overflow.attempts,
    done_jobs_overflow.max_attempts,
    done_jobs_overflow.locked_by,
    done_jobs_overflow.dedupe_key,
    done_jobs_overflow.last_error,
    done_jobs_overflow.errors,
    done_jobs_overflow.meta,
    done_jobs_overflow.created_at,
    done_jobs_overflow.finished_at,
    done_jobs_overflow.result
   FROM pgqueue.done_jobs_overflow;
comment on view pgqueue.all_jobs is 'Every job, wherever it stands, with one status column.';

create view pgqueue.schedules_in_code as
 SELECT DISTINCT ON (d.name) d.worker,
    d.name,
    d.declared_at,
    d.kind,
    d.queue,
    d.payload,
    d.priority,
    d.max_attempts,
    d.cron,
    d.every_ms,
    d.time_zone,
    d.starts_at,
    d.ends_at,
    d.catch_up
   FROM (pgqueue.schedule_declarations d
     JOIN pgqueue.workers w ON ((w.id = d.worker)))
  WHERE (w.dead_at IS NULL)
  ORDER BY d.name, d.declared_at DESC, d.worker;

create view pgqueue.schedules_to_follow as
 SELECT c.worker,
    c.name,
    c.declared_at,
    c.kind,
    c.queue,
    c.payload,
    c.priority,
    c.max_attempts,
    c.cron,
    c.every_ms,
    c.time_zone,
    c.starts_at,
    c.ends_at,
    c.catch_up
   FROM (pgqueue.schedules s
     JOIN pgqueue.schedules_in_code c ON ((c.name = s.name)))
  WHERE (s.declared AND (((((((((((s.kind IS DISTINCT FROM c.kind) OR (s.queue IS DISTINCT FROM c.queue)) OR (s.payload IS DISTINCT FROM c.payload)) OR (s.priority IS DISTINCT FROM c.priority)) OR (s.max_attempts IS DISTINCT FROM c.max_attempts)) OR (s.cron IS DISTINCT FROM c.cron)) OR (s.every_ms IS DISTINCT FROM c.every_ms)) OR (s.time_zone IS DISTINCT FROM c.time_zone)) OR (s.starts_at IS DISTINCT FROM c.starts_at)) OR (s.ends_at IS DISTINCT FROM c.ends_at)) OR (s.catch_up IS DISTINCT FROM c.catch_up)));

CREATE OR REPLACE FUNCTION pgqueue.admit_v1(p_worker uuid, p_queue text, p_rows tid[], p_picked tid[], OUT admitted tid[], OUT limited bigint[], OUT parked integer, OUT skipped boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
declare
  v_wanted text[];
  v_keys   text[] := '{}';
  v_slots  int[];
  v_tats   timestamptz[];
  v_steps  interval[];
  v_slacks interval[];
  v_now    timestamptz;
  v_charged boolean[];
  v_full   text[] := '{}';
  v_late   text[] := '{}';
  v_behind text[] := '{}';
  v_hold_keys text[] := '{}';
  v_hold_ids  bigint[] := '{}';
  v_park_rows tid[] := '{}';
  v_park_keys text[] := '{}';
  v_rows   tid[];
  v_at     int;
  v_key    text;
  v_full_key text;
  j record;
begin
  admitted := '{}'; limited := '{}'; parked := 0; skipped := false;
  -- In one order, and no more than the server has room for locks; the rest is a later claim's.
  v_wanted := array(
    select distinct "pgqueue".limit_key(l.name, l.by, j.payload)
      from "pgqueue".jobs j join "pgqueue".limits l
        on (l.queue is null or l.queue = j.queue) and (l.kinds is null or j.kind = any (l.kinds))
     where j.ctid = any (p_rows) order by 1 limit 100);
  if v_wanted = '{}' then
    admitted := p_rows;
    return;
  end if;
  foreach v_key in array v_wanted loop
    if pg_try_advisory_xact_lock("pgqueue".slot_key(v_key)) then v_keys := v_keys || v_key; end if;
  end loop;
  v_now := clock_timestamp();
  select array_agg(r.slots), array_agg(r.tat), array_agg(r.step), array_agg(r.slack), array_agg(false)
    into v_slots, v_tats, v_steps, v_slacks, v_charged from "pgqueue".room_v1(v_keys) as r;

  for j in
    select p.ctid, p.id, p.priority, p.run_at,
           array(select "pgqueue".limit_key(l.name, l.by, p.payload) from "pgqueue".limits l
                  where (l.queue is null or l.queue = p.queue) and (l.kinds is null or p.kind = any (l.kinds))
                  order by l.name) as keys
      from "pgqueue".jobs p where p.ctid = any (p_rows)
     order by p.priority, p.run_at, p.id
  loop
    if not j.keys <@ v_keys then
      skipped := true;
      continue;
    end if;
    v_full_key := null;
    foreach v_key in array j.keys loop
      v_at := array_position(v_keys, v_key);
      if v_key = any (v_full) then
        v_full_key := v_key;
      elsif v_slots[v_at] <= 0 then
        v_full := v_full || v_key;
        v_full_key := v_key;
      elsif greatest(v_tats[v_at], v_now) > v_now + v_slacks[v_at] then
        v_full := v_full || v_key;
        v_late := v_late || v_key;
        v_full_key := v_key;
      elsif exists (
        select from "pgqueue".jobs w where w.waits_for = 'slot' and w.parked_on = v_key
           and (w.priority, w.run_at, w.id) < (j.priority, j.run_at, j.id)) then
        -- There is room, and somebody waits for it who came before.
        v_full := v_full || v_key;
        v_behind := v_behind || v_key;
        v_full_key := v_key;
      end if;
      exit when v_full_key is not null;
    end loop;
    if v_full_key is not null then
      v_park_rows := v_park_rows || j.ctid;
      v_park_keys := v_park_keys || v_full_key;
      continue;
    end if;
    admitted := admitted || j.ctid;
    continue when j.keys = '{}';
    limited := limited || j.id;
    foreach v_key in array j.keys loop
      v_at := array_position(v_keys, v_key);
      v_charged[v_at] := true;
      v_slots[v_at] := v_slots[v_at] - 1;
      v_tats[v_at] := greatest(v_tats[v_at], v_now) + v_steps[v_at];
      if v_slots[v_at] is not null then
        v_hold_ids := v_hold_ids || j.id;
        v_hold_keys := v_hold_keys || v_key;
      end if;
    end loop;
  end loop;

  -- A row of an earlier run of the same job may have been left behind.
  insert into "pgqueue".holds (job_id, key, worker)
    select h.job_id, h.key, p_worker from unnest(v_hold_ids, v_hold_keys) as h(job_id, key)
    on conflict (job_id, key) do update set worker = excluded.worker;
  foreach v_key in array v_full loop
    v_rows := array(select p.row from unnest(v_park_rows, v_park_keys) as p(row, key) where p.key = v_key);
    parked := parked + "pgqueue".park_v1(v_key, p_queue, v_rows, p_picked || admitted);
  end loop;
  insert into "pgqueue".rates (key, tat, due_at)
    select r.key, r.tat, case when r.key = any (v_late) then r.tat - r.slack end
      from unnest(v_keys, v_tats, v_steps, v_slacks, v_charged) as r(key, tat, step, slack, charged)
     where r.step is not null and (r.charged or r.key = any (v_late))
    on conflict (key) do update set tat = excluded.tat, due_at = coalesce(excluded.due_at, rates.due_at);
  if v_behind <> '{}' then
    skipped := true;
    perform "pgqueue".ring_unclaimed_v1(u.unparked) from "pgqueue".unpark_v1(v_behind) as u;
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.archive_v1(p_rows tid[], p_status text, p_overflow boolean)
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  p_result_ids bigint[];
  p_results    jsonb[];
  v_stored     bigint[];
begin
  if p_overflow then
    
      with gone as (
        delete from "pgqueue".jobs where ctid = any (p_rows) returning *
      ), kept as (
        insert into "pgqueue".done_jobs_overflow
        select g.id, g.queue, g.kind, g.payload,
               case when g.cancel_requested_at is null then p_status else 'cancelled' end,
               g.priority, g.run_at, g.attempts, g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key,
               g.last_error, g.errors, g.meta, g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;
  else
    
      with gone as (
        delete from "pgqueue".jobs where ctid = any (p_rows) returning *
      ), kept as (
        insert into "pgqueue".done_jobs
        select g.id, g.queue, g.kind, g.payload,
               case when g.cancel_requested_at is null then p_status else 'cancelled' end,
               g.priority, g.run_at, g.attempts, g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key,
               g.last_error, g.errors, g.meta, g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.bury_v1(p_rows tid[], p_error jsonb, p_reporter uuid)
 RETURNS void
 LANGUAGE sql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
  delete from "pgqueue".failed_jobs where id = any (array(
    select id from "pgqueue".jobs where ctid = any (p_rows)));
  with gone as (
    delete from "pgqueue".jobs where ctid = any (p_rows) returning *
  )
  insert into "pgqueue".failed_jobs
    (id, queue, kind, payload, priority, run_at, attempts, max_attempts, lease_no, locked_by,
     dedupe_key, last_error, errors, meta, created_at, failed_at)
  select id, queue, kind, payload, priority, run_at, attempts, max_attempts, lease_no, p_reporter,
         dedupe_key, coalesce(p_error ->> 'message', last_error),
         "pgqueue".with_error(errors, p_error || jsonb_build_object('attempt', attempts,
           'lease_no', lease_no, 'worker', p_reporter, 'at', clock_timestamp())),
         meta, created_at, clock_timestamp()
    from gone
$function$;

CREATE OR REPLACE FUNCTION pgqueue.cancel(id bigint)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  j record;
begin
  -- The lock first, then a statement that sees what the lock waited for.
  perform from "pgqueue".jobs where jobs.id = cancel.id for update;
  select ctid, locked_by, lease_no into j from "pgqueue".jobs where jobs.id = cancel.id;
  if not found then
    return case when exists (select from "pgqueue".all_jobs where all_jobs.id = cancel.id)
      then 'finished' else 'not_found' end;
  end if;
  if j.locked_by is null then
    perform "pgqueue".cancel_rows_v1(array[j.ctid], null);
    return 'cancelled';
  end if;
  update "pgqueue".jobs set cancel_requested_at = clock_timestamp()
   where ctid = j.ctid and cancel_requested_at is null;
  -- Told at every call: the first notification may have been lost.
  perform pg_notify("pgqueue".cancel_channel(), cancel.id || ':' || j.lease_no);
  return 'requested';
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.cancel_channel()
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select "pgqueue".doorbell() || '_cancel'
$function$;

CREATE OR REPLACE FUNCTION pgqueue.cancel_many_v1(p_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids  bigint[];
  v_rows tid[];
begin
  -- The locks first, then a statement that sees what they keep as it is.
  v_ids := array(select id from "pgqueue".jobs where id = any (p_ids) and locked_by is null
                  order by id for update skip locked);
  v_rows := array(select ctid from "pgqueue".jobs where id = any (v_ids) and locked_by is null);
  perform "pgqueue".cancel_rows_v1(v_rows, null);
  return cardinality(v_rows);
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.cancel_rows_v1(p_rows tid[], p_reason text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  v_rows tid[];
begin
  with told as (
    update "pgqueue".jobs set
      locked_by = null,
      last_error = coalesce(p_reason, case when deadline <= clock_timestamp()
        then 'The deadline passed before the job could begin' end, last_error)
     where ctid = any (p_rows)
    returning ctid)
  select array_agg(ctid) into v_rows from told;
  begin
    perform "pgqueue".archive_v1(v_rows, 'cancelled', false);
  exception when check_violation then
    perform "pgqueue".archive_v1(v_rows, 'cancelled', true);
  end;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.complete_v1(p_worker uuid, p_id bigint, p_lease integer, p_keep boolean, p_result text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '10s'
AS $function$
declare
  v_result jsonb;
  j record;
begin
  -- As in an exchange: after the lock, so that whoever declares death has either ended or waits for us.
  perform pg_advisory_xact_lock_shared("pgqueue".worker_key(p_worker));
  if not exists (select from "pgqueue".workers where id = p_worker and dead_at is null) then return 'lost'; end if;
  -- The same for the row: a rescue or a cancel that has it is waited for, and seen by the next statement.
  perform from "pgqueue".jobs where id = p_id for update;
  select locked_by, lease_no, cancel_requested_at into j from "pgqueue".jobs where id = p_id;
  if j.locked_by is distinct from p_worker or j.lease_no <> p_lease then return 'lost'; end if;
  if j.cancel_requested_at is not null then return 'cancelled'; end if;

  -- A job that succeeded must not run again because of its result.
  begin
    v_result := p_result::jsonb;
  exception when data_exception or program_limit_exceeded then
    v_result := '{"notStored": "the database refused it"}';
  end;
  begin
    perform "pgqueue".settle_v1(p_worker, p_lease, array[p_id], p_keep,
      case when v_result is not null then array[p_id] end, array[v_result], false);
  exception when check_violation then
    perform "pgqueue".settle_v1(p_worker, p_lease, array[p_id], p_keep,
      case when v_result is not null then array[p_id] end, array[v_result], true);
  end;
  return 'done';
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.declare_dead_v1(p_worker uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '5s'
AS $function$
begin
  perform pg_advisory_xact_lock("pgqueue".worker_key(p_worker));
  update "pgqueue".workers set dead_at = clock_timestamp()
   where id = p_worker and dead_at is null and lease_until < clock_timestamp();
  return found;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.declare_schedules_v1(p_worker uuid, p_age_ms double precision, p_schedules jsonb)
 RETURNS TABLE(name text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock("pgqueue".schedules_key());
  delete from "pgqueue".schedule_declarations d
   where not exists (select from "pgqueue".workers w where w.id = d.worker);
  insert into "pgqueue".schedule_declarations
    select p_worker, n.name, clock_timestamp() - p_age_ms * interval '1 ms', n.kind, n.queue, n.payload,
           coalesce(n.priority, 0), coalesce(n.max_attempts, 5), n.cron, n.every_ms, n.time_zone,
           n.starts_at, n.ends_at, n.catch_up
      from jsonb_to_recordset(p_schedules) as n(
             name text, kind text, queue text, payload jsonb, priority smallint, max_attempts int, cron text,
             every_ms bigint, time_zone text, starts_at timestamptz, ends_at timestamptz, catch_up text)
    on conflict do nothing;
  insert into "pgqueue".schedules (name, kind, queue, payload, priority, max_attempts, cron, every_ms,
                                 time_zone, starts_at, ends_at, catch_up, declared)
    select c.name, c.kind, c.queue, c.payload, c.priority, c.max_attempts, c.cron, c.every_ms, c.time_zone,
           c.starts_at, c.ends_at, c.catch_up, true
      from "pgqueue".schedules_in_code c order by c.name
    on conflict do nothing;
  perform "pgqueue".follow_declarations_v1();
  -- This worker may handle what nobody did.
  update "pgqueue".schedules set next_at = null where name = any (array(
    select s.name from "pgqueue".schedules s where s.problem is not null for update skip locked));
  delete from "pgqueue".schedule_slots o
   where o.fired_at < clock_timestamp() - interval '1 day'
     and not exists (select from "pgqueue".schedules s where s.name = o.schedule);
  return query
    select s.name from "pgqueue".schedules s join "pgqueue".schedule_declarations d on d.name = s.name
     where d.worker = p_worker and not s.declared order by s.name;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.doorbell()
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select 'pgqueue_' || '"pgqueue".jobs'::regclass::oid
$function$;

CREATE OR REPLACE FUNCTION pgqueue.due_schedules_v1(p_limit integer)
 RETURNS TABLE(due_ms double precision, due_in double precision, due jsonb)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_due timestamptz;
begin
  -- Looked at without the lock, changed by a later statement under it: between the two, code that is newer may
  -- have come.
  if exists (select from "pgqueue".schedules_to_follow) then
    perform pg_advisory_xact_lock("pgqueue".schedules_key());
    perform "pgqueue".follow_declarations_v1();
  end if;

  v_now := clock_timestamp();
  v_due := (
    select case when count(*) > 0 then greatest(min(coalesce(s.next_at, v_now)), v_now) end -- greatest skips null
      from "pgqueue".schedules s
     where s.paused_at is null and (s.next_at is null or isfinite(s.next_at))
       and (not s.declared or exists (select from "pgqueue".schedules_in_code c where c.name = s.name)));
  due_ms := 1000 * extract(epoch from v_due);
  due_in := 1000 * extract(epoch from v_due - v_now);
  due := (
    select coalesce(jsonb_agg(jsonb_build_object(
             'name', s.name, 'turn', s.turn, 'kind', s.kind, 'queue', s.queue, 'cron', s.cron,
             'every_ms', s.every_ms, 'time_zone', s.time_zone, 'catch_up', s.catch_up,
             'starts_ms', 1000 * extract(epoch from s.starts_at)::double precision,
             'ends_ms', 1000 * extract(epoch from s.ends_at)::double precision,
             'handled_ms', 1000 * extract(epoch from s.handled_to)::double precision,
             'handled', exists (select from "pgqueue".workers w
                                 where w.dead_at is null and s.queue = any (w.queues) and s.kind = any (w.kinds)))
             order by s.next_at nulls first, s.name), '[]')
      from (select s.* from "pgqueue".schedules s
             where s.paused_at is null and (s.next_at is null or s.next_at <= v_due)
               and (not s.declared or exists (select from "pgqueue".schedules_in_code c where c.name = s.name))
             order by s.next_at nulls first, s.name limit p_limit) s);
  return next;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.end_attempts_v1(p_worker uuid, p_outcomes jsonb, p_overflow boolean, p_now timestamp with time zone, OUT unstored bigint[], OUT answers text[], OUT released text[], OUT from_at timestamp with time zone, OUT due_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
declare
  v_due timestamptz;
  o record;
  j record;
begin
  unstored := '{}'; answers := '{}'; released := '{}';
  for o in
    select * from jsonb_to_recordset(p_outcomes) as o(
      id bigint, lease_no int, action text, delay_ms double precision, run_at timestamptz, error jsonb)
     order by o.id
  loop
    select ctid, queue, run_at, attempts, lease_no, errors, cancel_requested_at into j from "pgqueue".jobs
     where id = o.id and lease_no = o.lease_no and locked_by = p_worker
       for update skip locked;
    if not found then
      unstored := unstored || o.id;
      answers := answers || "pgqueue".unsettled_v1(p_worker, o.id, o.lease_no);
      continue;
    end if;
    if j.cancel_requested_at is not null then o.action := 'cancel'; end if;
    case o.action
      when 'retry', 'release' then
        v_due := coalesce(o.run_at, p_now + o.delay_ms * interval '1 ms');
        update "pgqueue".jobs set
          locked_by = null,
          attempts = attempts - case when o.action = 'release' then 1 else 0 end,
          run_at = coalesce(v_due, run_at),
          waits_for = case when v_due is not null then 'time' end,
          last_error = coalesce(o.error ->> 'message', last_error),
          errors = "pgqueue".with_error(errors, o.error || jsonb_build_object('attempt', attempts,
            'lease_no', lease_no, 'worker', p_worker, 'at', p_now))
         where ctid = j.ctid;
        if v_due is null then
          released := released || j.queue;
          from_at := least(from_at, j.run_at);
        else
          due_at := least(due_at, v_due);
        end if;
      when 'fail' then
        perform "pgqueue".bury_v1(array[j.ctid], o.error, p_worker);
      when 'cancel' then
        update "pgqueue".jobs set last_error = coalesce(o.error ->> 'message', last_error) where ctid = j.ctid
          returning ctid into j.ctid;
        perform "pgqueue".archive_v1(array[j.ctid], 'cancelled', p_overflow);
    end case;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.enqueue(kind text, payload jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT 0, max_attempts integer DEFAULT 5, dedupe_key text DEFAULT NULL::text, meta jsonb DEFAULT NULL::jsonb, deadline timestamp with time zone DEFAULT NULL::timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
AS $function$
  select ids[1] from "pgqueue".enqueue_many_v1(
    array[queue], array[kind], jsonb_build_array(payload), array[priority::smallint], array[run_at], null,
    array[max_attempts], case when dedupe_key is not null then array[dedupe_key] end, array[meta], null,
    case when deadline is not null then jsonb_build_array(jsonb_build_object('n', 1, 'at', deadline)) end)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.enqueue_keyed_v1(p_queues text[], p_kinds text[], p_payloads jsonb, p_priorities smallint[], p_run_ats timestamp with time zone[], p_delays double precision[], p_max_attempts integer[], p_dedupe_keys text[], p_metas jsonb[], p_untils text[], p_on_duplicates text[], p_ttls double precision[], p_all_or_nothing boolean, p_lock_timeout integer DEFAULT NULL::integer, p_deadlines jsonb DEFAULT NULL::jsonb)
 RETURNS TABLE(ids bigint[], outcomes text[])
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  n         record;
  v_id      bigint;
  v_holder  bigint;
  v_queue   text;
  v_outcome text;
  v_given   bigint[] := array_fill(null::bigint, array[cardinality(p_kinds)]);
begin
  if p_lock_timeout is not null then
    perform set_config('lock_timeout', p_lock_timeout::text, true);
  end if;
  ids := array_fill(null::bigint, array[cardinality(p_kinds)]);
  outcomes := array_fill(null::text, array[cardinality(p_kinds)]);
  begin
    for n in
      select * from rows from (
          unnest(p_queues), unnest(p_kinds), jsonb_array_elements(p_payloads), unnest(p_priorities),
          unnest(p_run_ats), unnest(p_delays), unnest(p_max_attempts), unnest(p_dedupe_keys), unnest(p_metas),
          unnest(p_untils), unnest(p_on_duplicates), unnest(p_ttls)) with ordinality
        as n(queue, kind, payload, priority, run_at, delay, max_attempts, dedupe_key, meta, until,
             on_duplicate, ttl, ordinal)
       order by n.kind, n.dedupe_key, n.ordinal
    loop
      v_id := null;
      v_outcome := null;
      for v_round in 1..100 loop
        v_holder := null;
        if n.ttl is not null then
          insert into "pgqueue".dedupe_windows (kind, dedupe_key) values (n.kind, n.dedupe_key)
            on conflict do nothing;
          perform from "pgqueue".dedupe_windows w
            where w.kind = n.kind and w.dedupe_key = n.dedupe_key for update;
          continue when not found; -- the housekeeping was faster
          select w.job_id into v_holder from "pgqueue".dedupe_windows w
           where w.kind = n.kind and w.dedupe_key = n.dedupe_key and w.until > clock_timestamp();
        end if;

        if v_holder is null then
          insert into "pgqueue".jobs
            (queue, kind, payload, priority, run_at, max_attempts, dedupe_key, meta, dedupe_until)
            values (n.queue, n.kind, n.payload, coalesce(n.priority, 0),
                    coalesce(n.run_at, clock_timestamp() + n.delay * interval '1 ms', now()),
                    coalesce(n.max_attempts, 5), n.dedupe_key, n.meta,
                    case when n.until = 'started' then n.until end)
            on conflict (kind, dedupe_key) where dedupe_key is not null do nothing
            returning id into v_id;
          if v_id is not null then
            v_outcome := 'inserted';
            if n.ttl is not null then
              update "pgqueue".dedupe_windows w
                 set job_id = v_id, until = clock_timestamp() + n.ttl * interval '1 ms'
               where w.kind = n.kind and w.dedupe_key = n.dedupe_key;
            end if;
            exit;
          end if;
        end if;

        if n.on_duplicate = 'replace' then
          -- One row, found and changed by what its newest version says: if a claim was faster, none is.
          -- What is due already keeps its place, or a key that is replaced all the time would never run.
          update "pgqueue".jobs j set
            payload = n.payload, meta = n.meta, deadline = null, priority = coalesce(n.priority, 0),
            dedupe_until = case when n.until = 'started' then n.until end,
            run_at = coalesce(n.run_at, clock_timestamp() + n.delay * interval '1 ms',
                              least(j.run_at, now())),
            waits_for = case when j.waits_for is null or j.waits_for in ('time', 'handler')
              then case when coalesce(n.run_at, clock_timestamp() + n.delay * interval '1 ms')
                             > clock_timestamp() then 'time' end
              else j.waits_for end
           where j.kind = n.kind and j.dedupe_key = n.dedupe_key and j.locked_by is null
          returning j.id, j.queue into v_id, v_queue;
          if found then
            v_outcome := 'replaced';
            perform "pgqueue".ring_for(v_queue);
            exit;
          end if;
        end if;

        select coalesce((select j.id from "pgqueue".jobs j
                          where j.kind = n.kind and j.dedupe_key = n.dedupe_key), v_holder) into v_id;
        if v_id is not null then
          v_outcome := 'duplicate';
          exit;
        end if;
        -- The holder was settled, or has given up its key: the next round inserts.
      end loop;

      ids[n.ordinal] := v_id;
      outcomes[n.ordinal] := v_outcome;
      if v_outcome <> 'duplicate' then v_given[n.ordinal] := v_id; end if;
      if p_all_or_nothing and v_outcome = 'duplicate' and n.on_duplicate = 'throw' then
        raise exception using errcode = 'PGQ01';
      end if;
    end loop;
    if p_deadlines is not null then perform "pgqueue".set_deadlines_v1(v_given, p_deadlines); end if;
  exception when sqlstate 'PGQ01' then
    -- What this block did is taken back, and the caller's transaction goes on.
    ids := array_fill(null::bigint, array[cardinality(p_kinds)]);
    outcomes := array_fill(null::text, array[cardinality(p_kinds)]);
    ids[n.ordinal] := v_id;
    outcomes[n.ordinal] := 'refused';
  end;
  return next;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.enqueue_many_v1(p_queues text[], p_kinds text[], p_payloads jsonb, p_priorities smallint[], p_run_ats timestamp with time zone[], p_delays double precision[], p_max_attempts integer[], p_dedupe_keys text[], p_metas jsonb[], p_lock_timeout integer DEFAULT NULL::integer, p_deadlines jsonb DEFAULT NULL::jsonb)
 RETURNS TABLE(ids bigint[], inserted boolean[])
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  v_now     timestamptz := clock_timestamp();
  v_ids     bigint[] := array(select nextval('"pgqueue".jobs_id_seq')
                                from generate_series(1, jsonb_array_length(p_payloads)));
  v_queue        text        := case when cardinality(p_queues) = 1 then p_queues[1] end;
  v_kind         text        := case when cardinality(p_kinds) = 1 then p_kinds[1] end;
  v_priority     smallint    := case when cardinality(p_priorities) = 1 then p_priorities[1] end;
  v_run_at       timestamptz := case when cardinality(p_run_ats) = 1 then p_run_ats[1] end;
  v_delay        float8      := case when cardinality(p_delays) = 1 then p_delays[1] end;
  v_max_attempts int         := case when cardinality(p_max_attempts) = 1 then p_max_attempts[1] end;
  v_key          text        := case when cardinality(p_dedupe_keys) = 1 then p_dedupe_keys[1] end;
  v_meta         jsonb       := case when cardinality(p_metas) = 1 then p_metas[1] end;
  v_answers bigint[];
  v_new     bigint[];
begin
  if p_lock_timeout is not null then
    perform set_config('lock_timeout', p_lock_timeout::text, true);
  end if;
  if p_dedupe_keys is null then
    insert into "pgqueue".jobs (id, queue, kind, payload, priority, run_at, max_attempts, meta)
      overriding system value
      select n.id, coalesce(n.queue, v_queue), coalesce(n.kind, v_kind), n.payload,
             coalesce(n.priority, v_priority, 0),
             coalesce(n.run_at, v_run_at, v_now + coalesce(n.delay, v_delay) * interval '1 ms', now()),
             coalesce(n.max_attempts, v_max_attempts, 5), coalesce(n.meta, v_meta)
        from rows from (unnest(v_ids), unnest(p_queues), unnest(p_kinds), jsonb_array_elements(p_payloads),
                        unnest(p_priorities), unnest(p_run_ats), unnest(p_delays), unnest(p_max_attempts),
                        unnest(p_metas))
          as n(id, queue, kind, payload, priority, run_at, delay, max_attempts, meta);
    if p_deadlines is not null then perform "pgqueue".set_deadlines_v1(v_ids, p_deadlines); end if;
    return query select v_ids, array[true];
    return;
  end if;

  -- The unique index is the only arbiter of a key. Insert, then read the holder; a holder that was
  -- settled in between leaves no answer, and the next round inserts. Keys are taken in one order, so
  -- that two lists can't wait for each other.
  v_answers := array_fill(null::bigint, array[cardinality(v_ids)]);
  for v_round in 1..100 loop
    with new as (
      insert into "pgqueue".jobs
        (id, queue, kind, payload, priority, run_at, max_attempts, dedupe_key, meta)
      overriding system value
      select n.id, coalesce(n.queue, v_queue), coalesce(n.kind, v_kind), n.payload,
             coalesce(n.priority, v_priority, 0),
             coalesce(n.run_at, v_run_at, v_now + coalesce(n.delay, v_delay) * interval '1 ms', now()),
             coalesce(n.max_attempts, v_max_attempts, 5),
             coalesce(n.dedupe_key, v_key), coalesce(n.meta, v_meta)
        from rows from (unnest(v_ids), unnest(p_queues), unnest(p_kinds), jsonb_array_elements(p_payloads),
                        unnest(p_priorities), unnest(p_run_ats), unnest(p_delays), unnest(p_max_attempts),
                        unnest(p_dedupe_keys), unnest(p_metas), unnest(v_answers))
          as n(id, queue, kind, payload, priority, run_at, delay, max_attempts, dedupe_key, meta, answer)
       where n.answer is null
       order by coalesce(n.kind, v_kind), coalesce(n.dedupe_key, v_key), n.id
      on conflict (kind, dedupe_key) where dedupe_key is not null do nothing
      returning id)
    select array_agg(new.id) into v_new from new;

    v_answers := array(
      select coalesce(n.answer, new.id,
                      (select j.id from "pgqueue".jobs j
                        where j.kind = coalesce(n.kind, v_kind)
                          and j.dedupe_key = coalesce(n.dedupe_key, v_key)))
        from unnest(v_ids, p_kinds, p_dedupe_keys, v_answers)
               with ordinality as n(id, kind, dedupe_key, answer, ordinal)
        left join unnest(v_new) as new(id) on new.id = n.id
       order by n.ordinal);
    exit when array_position(v_answers, null) is null;
  end loop;
  if p_deadlines is not null then perform "pgqueue".set_deadlines_v1(v_ids, p_deadlines); end if;

  return query
    select v_answers, array(select n.answer is not distinct from n.id
                              from unnest(v_ids, v_answers) with ordinality as n(id, answer, ordinal)
                             order by n.ordinal);
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.enqueuing_key(queue text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select pg_catalog.hashtextextended(queue, 4294967296 + '"pgqueue".jobs'::regclass::oid::bigint)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.enqueuing_v1(p_queues text[])
 RETURNS text[]
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select coalesce(array_agg(distinct virtualtransaction), '{}') from pg_locks
   where locktype = 'advisory' and objsubid = 1
     and database = (select oid from pg_database where datname = current_database())
     and (classid::bigint << 32) | objid::bigint = any (array(
       select "pgqueue".enqueuing_key(q) from unnest(p_queues) as q))
$function$;

CREATE OR REPLACE FUNCTION pgqueue.exchange_v1(p_worker uuid, p_epoch integer, p_done bigint[], p_leases integer[], p_keeps boolean[], p_results jsonb[], p_outcomes jsonb, p_looks jsonb, p_due_after timestamp with time zone, p_overflow boolean, p_budget integer DEFAULT NULL::integer, p_held bigint[] DEFAULT NULL::bigint[], p_freed text[] DEFAULT NULL::text[])
 RETURNS TABLE(answer text, id bigint, lease_no integer, queue text, kind text, payload jsonb, priority smallint, attempt integer, max_attempts integer, meta jsonb, created_at timestamp with time zone, due_in double precision)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
declare
  v_now     timestamptz;
  v_worker  record;
  v_lease   int;
  v_keep    boolean;
  v_ids     bigint[];
  v_results jsonb[];
  v_rows    tid[];
  v_stored  bigint[];
  v_next    timestamptz;
  v_due_after timestamptz := coalesce(p_due_after, '-infinity');
  -- What became claimable in this exchange has an old place in the order: from before it every look begins.
  v_from    timestamptz := 'infinity';
  v_first   timestamptz;
  v_last    timestamptz;
  v_looked  timestamptz;
  v_all     jsonb;
  v_kinds   jsonb;
  v_taken   tid[];
  v_picked  tid[] := '{}';
  v_places  jsonb := '[]';
  v_count   int;
  v_slots   text;
  v_slots_from int := 0;
  v_lane    int;
  v_lane_from int := 0;
  v_limited  boolean := false;
  v_keys     text[] := p_freed;
  v_held     bigint[] := '{}';
  v_unparked bigint[] := '{}';
  v_refused  text[] := '{}';
  v_parked   int := 0;
  v_skipped  boolean := false;
  v_admitted record;
  v_place    jsonb;
  v_released text[] := '{}';
  v_unstored bigint[] := '{}';
  v_answers  text[] := '{}';
  o record;
  j record;
  look record;
begin
  -- After the lock, so that whoever declares death or bumps the epoch has either ended or waits for us;
  -- and in a later statement than the lock, which alone sees what it changed.
  perform pg_advisory_xact_lock_shared("pgqueue".worker_key(p_worker));
  v_now := clock_timestamp();
  select epoch, dead_at, kinds, paused_kinds, exists (select from "pgqueue".limits) as limited into v_worker
    from "pgqueue".workers where id = p_worker;

  -- Nothing is asked in vain: three statements less took an exchange of nothing from 48 to 35 µs.
  if p_done <> '{}' then
    for v_lease, v_keep in
      select distinct d.lease, d.keep from unnest(p_leases, p_keeps) as d(lease, keep)
    loop
      select array_agg(d.id), case when p_results is not null then array_agg(d.result) end
        into v_ids, v_results
        from unnest(p_done, p_leases, p_keeps, p_results) as d(id, lease, keep, result)
       where d.lease = v_lease and d.keep = v_keep;
      v_stored := "pgqueue".settle_v1(p_worker, v_lease, v_ids, v_keep,
                                    case when v_results is not null then v_ids end, v_results, p_overflow);
      if coalesce(cardinality(v_stored), 0) < cardinality(v_ids) then
        for o in select i.id from unnest(v_ids) as i(id) where not i.id = any (coalesce(v_stored, '{}')) loop
          v_unstored := v_unstored || o.id;
          v_answers := v_answers || case
            when not v_keep and not exists (select from "pgqueue".all_jobs where id = o.id) then 'already'
            else "pgqueue".unsettled_v1(p_worker, o.id, v_lease) end;
        end loop;
      end if;
    end loop;
  end if;

  if p_outcomes is not null then
    select * into j from "pgqueue".end_attempts_v1(p_worker, p_outcomes, p_overflow, v_now);
    v_unstored := v_unstored || j.unstored;
    v_answers := v_answers || j.answers;
    v_from := least(v_from, j.from_at);
    v_due_after := least(v_due_after, j.due_at);
    v_released := j.released;
  end if;
  if p_held is not null then v_keys := v_keys || "pgqueue".release_v1(p_worker, p_held, v_unstored); end if;
  v_limited := v_keys is not null or coalesce(v_worker.limited, false);
  if v_limited then
    -- In the same transaction: nobody else counts a key while we hold it, and what we delete is gone with us.
    v_keys := v_keys || array(select key from "pgqueue".rates where due_at <= v_now order by due_at limit 100);
    if v_keys <> '{}' then
      select refused, unparked, first_at into v_refused, v_unparked, v_first from "pgqueue".unpark_v1(v_keys);
      v_from := least(v_from, v_first);
    end if;
  end if;
  if cardinality(v_released) > 0 then
    perform pg_notify("pgqueue".doorbell(), r.queue) from (select distinct q from unnest(v_released) as q) as r(queue);
  end if;

  if v_worker is null or v_worker.dead_at is not null or v_worker.epoch <> p_epoch then
    return query select case when v_worker.dead_at is null and v_worker.epoch <> p_epoch then 'stale' else 'dead' end,
      null::bigint, null::int, null::text, null::text, null::jsonb, null::smallint, null::int, null::int,
      null::jsonb, null::timestamptz, null::double precision;
  else
    v_looked := clock_timestamp();
    if jsonb_array_length(p_looks) > 0 then
      select run_at into v_next from "pgqueue".jobs where waits_for = 'time' and run_at >= v_due_after
       order by run_at limit 1;
      if v_next <= v_now then
        with promoted as (
          update "pgqueue".jobs set waits_for = null where ctid = any (array(
            select ctid from "pgqueue".jobs
             where waits_for = 'time' and run_at >= v_due_after and run_at <= v_now
             order by run_at limit 1000 for update skip locked))
          returning run_at)
        select min(run_at), max(run_at) into v_first, v_last from promoted;
        v_from := least(v_from, v_first);
        v_due_after := greatest(v_due_after, v_last);
        select run_at into v_next from "pgqueue".jobs where waits_for = 'time' and run_at >= v_due_after
         order by run_at limit 1;
      end if;
      if v_next is null or v_next > v_now then v_due_after := v_now; end if;
      v_from := v_from - interval '1 us'; -- positions are exclusive
      -- Of 200 kinds a list costs 1.3 µs a row, and an object, which is searched by halves, 0.15.
      v_all := (select jsonb_object_agg(k, null) from unnest(v_worker.kinds) as k);
      for look in
        select l.ordinal, l.lane, l.queue, l.of_kinds, l.not_kinds, l.want, l.slots, l.free,
               coalesce(l.after_p, -32769) as after_p, coalesce(l.after_r, '-infinity') as after_r,
               coalesce(l.after_i, 0) as after_i, coalesce(l.upto, 32767) as upto
          from rows from (jsonb_to_recordset(p_looks) as (
                 lane int, queue text, of_kinds jsonb, not_kinds text[], want int, slots text, free int,
                 after_p int, after_r timestamptz, after_i bigint, upto int)) with ordinality
            as l(lane, queue, of_kinds, not_kinds, want, slots, free, after_p, after_r, after_i, upto, ordinal)
          left join "pgqueue".queues q on q.name = l.queue
         where q.paused_at is null
         order by l.ordinal
      loop
        v_count := cardinality(v_picked);
        if look.slots is distinct from v_slots then
          v_slots := look.slots;
          v_slots_from := v_count;
        end if;
        if look.lane is distinct from v_lane then
          v_lane := look.lane;
          v_lane_from := v_count;
        end if;
        v_count := least(look.want + v_lane_from, look.free + v_slots_from, p_budget) - v_count;
        continue when v_count <= 0;
        v_kinds := coalesce(look.of_kinds, v_all - look.not_kinds, v_all) - v_worker.paused_kinds;
        -- The array is built once, whatever the plan, so no more rows are taken than asked.
        v_taken := array(
          select ctid from "pgqueue".jobs
           where queue = look.queue and waits_for is null and locked_by is null and run_at <= v_now
             and (priority, run_at, id) > (look.after_p, least(look.after_r, v_from), look.after_i)
             and priority <= look.upto and jsonb_exists(v_kinds, kind)
           order by priority, run_at, id
           limit v_count
           for update skip locked);
        continue when v_taken = '{}';
        v_place := (select jsonb_build_object('look', look.ordinal, 'p', priority, 'r', run_at, 'i', id::text)
                      from "pgqueue".jobs where ctid = v_taken[cardinality(v_taken)]);
        if v_limited then
          select * into v_admitted from "pgqueue".admit_v1(p_worker, look.queue, v_taken, v_picked);
          v_taken := v_admitted.admitted;
          v_held := v_held || v_admitted.limited;
          v_parked := v_parked + v_admitted.parked;
          v_skipped := v_skipped or v_admitted.skipped;
          continue when v_admitted.skipped and v_taken = '{}';
          v_place := case when not v_admitted.skipped then v_place end; -- they are behind it
        end if;
        v_picked := v_picked || v_taken;
        if v_place is not null then v_places := v_places || v_place; end if;
      end loop;
      if v_limited then
        v_next := least(v_next, (select min(due_at) from "pgqueue".rates where due_at is not null));
      end if;
    end if;
    return query select 'alive', null::bigint, null::int, null::text, null::text,
      jsonb_build_object('due', nullif(v_due_after, '-infinity'), 'last', v_places,
        'took', 1000 * extract(epoch from clock_timestamp() - v_looked),
        'limits', case when v_limited then jsonb_build_object('held', v_held::text[], 'refused', v_refused,
                                                              'parked', v_parked, 'skipped', v_skipped) end),
      null::smallint, null::int, null::int, null::jsonb, null::timestamptz,
      case when v_next is not null then greatest(0, 1000 * extract(epoch from
        least(v_next, v_now + interval '1 day') - v_now))::double precision end;
  end if;

  if v_unstored <> '{}' then
    return query select u.answer, u.id, null::int, null::text, null::text, null::jsonb, null::smallint,
    null::int, null::int, null::jsonb, null::timestamptz, null::double precision
      from unnest(v_unstored, v_answers) as u(id, answer);
  end if;

  if cardinality(v_picked) > 0 then
    return query
      with claimed as (
        update "pgqueue".jobs
           set locked_by = p_worker, attempts = attempts + 1, lease_no = lease_no + 1,
               -- Unchanged for all others, so that their claim stays a HOT update.
               dedupe_key = case when dedupe_until is null then dedupe_key end
         where ctid = any (v_picked) and attempts < max_attempts
           and (deadline > v_now) is not false and cancel_requested_at is null
        returning id, lease_no, queue, kind, payload, attempts, max_attempts, meta, created_at,
                  priority, run_at)
      select 'job', c.id, c.lease_no, c.queue, c.kind, c.payload, c.priority, c.attempts, c.max_attempts, c.meta,
             c.created_at, null::double precision
        from claimed c order by c.priority, c.run_at, c.id;
    get diagnostics v_count = row_count;
    if v_count < cardinality(v_picked) then
      v_rows := array(select ctid from "pgqueue".jobs where ctid = any (v_picked)
                         and ((deadline > v_now) is false or cancel_requested_at is not null));
      if v_rows <> '{}' then
        return query select 'expired', j.id, null::int, j.queue, j.kind, null::jsonb, null::smallint, null::int,
          null::int, null::jsonb, null::timestamptz, null::double precision
          from "pgqueue".jobs j where j.ctid = any (v_rows);
        perform "pgqueue".cancel_rows_v1(v_rows, null);
      end if;
      -- A budget that was spent by a crash, or lowered by hand, ends here without a run.
      v_rows := array(select ctid from "pgqueue".jobs where ctid = any (v_picked) and attempts >= max_attempts);
      return query select 'spent', j.id, null::int, j.queue, j.kind, null::jsonb, null::smallint, null::int, null::int,
        null::jsonb, null::timestamptz, null::double precision
        from "pgqueue".jobs j where j.ctid = any (v_rows);
      perform "pgqueue".bury_v1(v_rows, jsonb_build_object('name', 'AttemptsSpent',
        'message', 'The job had no attempts left when it was due'), null);
    end if;
  end if;

  -- What was un-parked and not claimed here is somebody else's.
  if v_unparked <> '{}' then perform "pgqueue".ring_unclaimed_v1(v_unparked); end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.expire_v1(p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_now  timestamptz := clock_timestamp();
  v_ids  bigint[] := array(select job_id from "pgqueue".deadlines where look_at <= v_now
                            order by look_at limit p_limit for update skip locked);
  v_rows tid[];
begin
  v_rows := array(select ctid from "pgqueue".jobs
                   where id = any (v_ids) and locked_by is null and deadline <= v_now
                   order by id for update skip locked);
  if v_rows <> '{}' then perform "pgqueue".cancel_rows_v1(v_rows, null); end if;
  -- Those that are left run, or are locked by somebody, or their deadline lies ahead.
  update "pgqueue".deadlines d
     set look_at = case when j.deadline > v_now then least(j.deadline, v_now + interval '1 hour')
                        else v_now + interval '1 minute' end
    from "pgqueue".jobs j where d.job_id = any (v_ids) and j.id = d.job_id and j.deadline is not null;
  delete from "pgqueue".deadlines where job_id = any (v_ids) and look_at <= v_now;
  return cardinality(v_ids);
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.fire_schedules_v1(p_plans jsonb)
 RETURNS TABLE(name text, outcome text, fired integer)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  v_now timestamptz;
  p record;
  s "pgqueue".schedules;
begin
  for p in
    select * from jsonb_to_recordset(p_plans) as p(
      name text, turn int, slots double precision[], handled_to double precision, next_at double precision,
      again_ms double precision, problem text)
     order by p.name
  loop
    name := p.name;
    fired := 0;
    perform from "pgqueue".schedules where schedules.name = p.name for update skip locked;
    if not found then
      outcome := 'busy';
      return next;
      continue;
    end if;
    -- A later statement sees what whoever had the lock before us left.
    select * into s from "pgqueue".schedules where schedules.name = p.name;
    v_now := clock_timestamp();
    if s.turn <> p.turn or s.paused_at is not null
       or (s.declared and not exists (select from "pgqueue".schedules_in_code c where c.name = p.name))
       or exists (select from "pgqueue".schedules_to_follow f where f.name = p.name)
    then
      outcome := 'passed';
    elsif exists (select from unnest(p.slots) as t(ms) where to_timestamp(ms / 1000) > v_now) then
      outcome := 'early';
    else
      begin
        if cardinality(p.slots) > 0 then
          with new as (
            insert into "pgqueue".schedule_slots (schedule, slot, job_id)
              select p.name, o.slot, nextval('"pgqueue".jobs_id_seq')
                from (select to_timestamp(ms / 1000) as slot from unnest(p.slots) as t(ms) order by 1) as o
               where o.slot > s.handled_to
              on conflict do nothing returning slot, job_id)
          insert into "pgqueue".jobs (id, queue, kind, payload, priority, max_attempts, meta)
            overriding system value
            select new.job_id, s.queue, s.kind, s.payload, s.priority, s.max_attempts,
                   jsonb_build_object('schedule', jsonb_build_object('name', s.name, 'slot',
                     to_char(new.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
              from new;
          get diagnostics fired = row_count;
          -- The mark alone keeps older slots from firing; the rows tell people what became of each.
          delete from "pgqueue".schedule_slots o
           where o.schedule = p.name and o.slot < v_now - interval '1 day' and o.slot < s.handled_to;
        end if;
        update "pgqueue".schedules set
          turn = turn + 1,
          handled_to = greatest(handled_to, to_timestamp(p.handled_to / 1000)),
          last_slot = case when fired > 0
            then (select max(to_timestamp(ms / 1000)) from unnest(p.slots) as t(ms)) else last_slot end,
          next_at = case when p.again_ms is not null then v_now + p.again_ms * interval '1 ms'
                         else coalesce(to_timestamp(p.next_at / 1000), 'infinity') end,
          problem = p.problem
         where schedules.name = p.name;
        outcome := 'planned';
      exception when data_exception or integrity_constraint_violation or raise_exception
                  or program_limit_exceeded or syntax_error_or_access_rule_violation then
        fired := 0;
        outcome := 'refused: ' || sqlerrm;
        update "pgqueue".schedules
           set turn = turn + 1, next_at = v_now + interval '15 s', problem = left(sqlerrm, 1000)
         where schedules.name = p.name;
      end;
    end if;
    return next;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.follow_declarations_v1()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update "pgqueue".schedules s
     set kind = c.kind, queue = c.queue, payload = c.payload, priority = c.priority,
         max_attempts = c.max_attempts, cron = c.cron, every_ms = c.every_ms, time_zone = c.time_zone,
         starts_at = c.starts_at, ends_at = c.ends_at, catch_up = c.catch_up
    from "pgqueue".schedules_to_follow c
   where s.name = c.name and s.name = any (array(
     select x.name from "pgqueue".schedules x
      where x.declared and x.name in (select f.name from "pgqueue".schedules_to_follow f)
        for update skip locked));
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.handlers_key()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select pg_catalog.hashtextextended('handlers', '"pgqueue".jobs'::regclass::oid::bigint)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.heartbeat_v1(p_worker uuid, p_lease_ms double precision)
 RETURNS TABLE(alive boolean, overdue uuid[])
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update "pgqueue".workers
     set lease_until = clock_timestamp() + p_lease_ms * interval '1 ms', seen_at = clock_timestamp()
   where id = p_worker and dead_at is null;
  alive := found;
  overdue := array(select id from "pgqueue".workers
                    where id <> p_worker and (dead_at is not null or lease_until < clock_timestamp()));
  return next;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.kinds_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_advisory_xact_lock("pgqueue".handlers_key());
  update "pgqueue".workers w set paused_kinds = p.kinds
    from (select "pgqueue".paused_kinds() as kinds) as p
   where w.paused_kinds <> p.kinds;
  update "pgqueue".maintenance set next_at = clock_timestamp() where task = 'handlers';
  perform pg_notify("pgqueue".doorbell(), '');
  return null;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.limit_key(name text, by text[], payload jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select case
    when by is null then name
    when octet_length(payload #>> by) > 200 then name || '/md5:' || md5(payload #>> by)
    else name || '/' || coalesce(payload #>> by, '') end
$function$;

CREATE OR REPLACE FUNCTION pgqueue.limits_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update "pgqueue".maintenance set next_at = now() where task = 'slots';
  perform pg_notify("pgqueue".doorbell(), '');
  return null;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.park_v1(p_key text, p_queue text, p_rows tid[], p_except tid[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_rows tid[] := array(
    select j.ctid from "pgqueue".jobs j
     where j.ctid = any (array(
       select w.ctid
         from (select ctid, queue, kind, payload from "pgqueue".jobs
                where queue = p_queue and waits_for is null and locked_by is null
                  and run_at <= clock_timestamp()
                order by priority, run_at, id limit 1000) as w
         join "pgqueue".limits l on l.name = split_part(p_key, '/', 1)
        where (l.queue is null or l.queue = w.queue) and (l.kinds is null or w.kind = any (l.kinds))
          and "pgqueue".limit_key(l.name, l.by, w.payload) = p_key))
       and j.waits_for is null and j.locked_by is null and j.ctid <> all (p_except)
       for update skip locked);
  v_count int;
begin
  update "pgqueue".jobs set waits_for = 'slot', parked_on = p_key
   where ctid = any (p_rows || v_rows) and waits_for is null;
  get diagnostics v_count = row_count;
  return v_count;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.pause(queue text DEFAULT NULL::text, kind text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if (queue is null) = (kind is null) then
    raise exception 'Give a queue or a kind' using errcode = 'invalid_parameter_value';
  end if;
  if queue is not null then
    insert into "pgqueue".queues as q (name, paused_at) values (queue, clock_timestamp())
      on conflict (name) do update set paused_at = coalesce(q.paused_at, excluded.paused_at);
  else
    insert into "pgqueue".kinds as k (name, paused_at) values (kind, clock_timestamp())
      on conflict (name) do update set paused_at = coalesce(k.paused_at, excluded.paused_at);
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.paused_kinds()
 RETURNS text[]
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select array(select name from "pgqueue".kinds where paused_at is not null order by name)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.progress_v1(p_ended bigint[], p_ended_leases integer[], p_ids bigint[], p_leases integer[], p_values jsonb[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
begin
  delete from "pgqueue".job_progress p using unnest(p_ended, p_ended_leases) as e(id, lease)
   where p.job_id = e.id and p.lease_no = e.lease;
  insert into "pgqueue".job_progress (job_id, lease_no, value)
    select j.id, j.lease_no, n.value
      from unnest(p_ids, p_leases, p_values) as n(id, lease, value)
      join "pgqueue".jobs j on j.id = n.id and j.lease_no = n.lease and j.locked_by is not null
     order by j.id
    on conflict (job_id) do update
      set lease_no = excluded.lease_no, value = excluded.value, written_at = clock_timestamp()
      where job_progress.lease_no <= excluded.lease_no;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.queue_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_notify("pgqueue".doorbell(), '');
  perform pg_notify("pgqueue".doorbell(), coalesce(new.name, old.name));
  return null;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.reconcile_v1(p_worker uuid, p_known bigint[])
 RETURNS TABLE(epoch integer, released integer, remaining integer)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '5s'
AS $function$
#variable_conflict use_column
declare
  v_ids bigint[];
  j record;
begin
  perform pg_advisory_xact_lock("pgqueue".worker_key(p_worker));
  update "pgqueue".workers w set epoch = w.epoch + 1 where w.id = p_worker and w.dead_at is null
    returning w.epoch into epoch;
  released := 0;
  v_ids := array(select id from "pgqueue".jobs where locked_by = p_worker and not id = any (p_known));
  for j in
    update "pgqueue".jobs set locked_by = null, attempts = attempts - 1
     where ctid = any (array(select ctid from "pgqueue".jobs
                              where id = any (v_ids) and locked_by = p_worker for update skip locked))
    returning ctid, queue, cancel_requested_at
  loop
    released := released + 1;
    if j.cancel_requested_at is not null then
      perform "pgqueue".cancel_rows_v1(array[j.ctid], null);
    else
      perform pg_notify("pgqueue".doorbell(), j.queue);
    end if;
  end loop;
  remaining := cardinality(v_ids) - released;
  return next;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.register_v1(p_worker uuid, p_name text, p_host text, p_pid integer, p_version text, p_queues text[], p_kinds text[], p_lease_ms double precision)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_advisory_xact_lock_shared("pgqueue".handlers_key());
  insert into "pgqueue".queues (name)
    select q from unnest(p_queues) as q order by q on conflict do nothing;
  insert into "pgqueue".workers (id, name, host, pid, version, queues, kinds, lease_until, paused_kinds)
    values (p_worker, p_name, p_host, p_pid, p_version, p_queues, p_kinds,
            clock_timestamp() + p_lease_ms * interval '1 ms', "pgqueue".paused_kinds());
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.release_v1(p_worker uuid, p_held bigint[], p_unstored bigint[])
 RETURNS text[]
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
  with gone as (
    delete from "pgqueue".holds
     where job_id = any (p_held) and worker = p_worker and not job_id = any (p_unstored)
    returning key)
  select coalesce(array_agg(key), '{}') from gone
$function$;

CREATE OR REPLACE FUNCTION pgqueue.rescue_v1(p_strays boolean, p_limit integer)
 RETURNS TABLE(id bigint, kind text, worker text, outcome text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  v_dead  uuid[] := array(select id from "pgqueue".workers where dead_at is not null);
  v_rows  bigint[];
  v_error jsonb;
  v_deaths int;
  j record;
begin
  if p_strays then
    v_dead := v_dead || array(
      select distinct locked_by from "pgqueue".jobs
       where locked_by is not null and not exists (select from "pgqueue".workers w where w.id = locked_by));
  end if;
  if cardinality(v_dead) = 0 then return; end if;

  v_rows := array(select id from "pgqueue".jobs where locked_by = any (v_dead)
                   limit p_limit for update skip locked);
  for j in
    select j.ctid, j.*, w.name, w.lease_until
      from "pgqueue".jobs j left join "pgqueue".workers w on w.id = j.locked_by
     where j.id = any (v_rows)
  loop
    v_error := jsonb_build_object('name', 'WorkerDied', 'message', format(
      'The worker %s died while it ran the job: its lease expired%s',
      coalesce(j.name, j.locked_by::text), coalesce(' at ' || j.lease_until, '')));
    id := j.id; kind := j.kind; worker := coalesce(j.name, j.locked_by::text);
    begin
      if j.cancel_requested_at is not null then
        perform "pgqueue".cancel_rows_v1(array[j.ctid], v_error ->> 'message');
        outcome := 'cancelled';
      elsif j.attempts >= j.max_attempts then
        perform "pgqueue".bury_v1(array[j.ctid], v_error, null);
        outcome := 'failed';
      else
        v_deaths := jsonb_array_length(
          jsonb_path_query_array(coalesce(j.errors, '[]'), '$[*] ? (@.name == "WorkerDied")'));
        update "pgqueue".jobs set
          locked_by = null,
          waits_for = case when v_deaths > 0 then 'time' end,
          run_at = case when v_deaths > 0
            then clock_timestamp() + least(600, 2 ^ least(v_deaths, 20)) * interval '1 s' else run_at end,
          last_error = v_error ->> 'message',
          errors = "pgqueue".with_error(errors, v_error || jsonb_build_object('attempt', attempts,
            'at', clock_timestamp()))
         where ctid = j.ctid;
        perform pg_notify("pgqueue".doorbell(), j.queue);
        outcome := 'freed';
      end if;
    exception when data_exception or integrity_constraint_violation then
      outcome := 'refused: ' || sqlerrm;
    end;
    return next;
  end loop;

  -- A dead worker's row goes only when a scan finds no job of it.
  if cardinality(v_rows) < p_limit then
    delete from "pgqueue".workers w
     where w.id = any (v_dead) and w.dead_at is not null
       and not exists (select from "pgqueue".jobs j where j.locked_by = w.id);
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.resize(queue text, concurrency integer)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into "pgqueue".queues (name, concurrency) values ($1, $2)
    on conflict (name) do update set concurrency = excluded.concurrency
$function$;

CREATE OR REPLACE FUNCTION pgqueue.resume(queue text DEFAULT NULL::text, kind text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if (queue is null) = (kind is null) then
    raise exception 'Give a queue or a kind' using errcode = 'invalid_parameter_value';
  end if;
  if queue is not null then
    update "pgqueue".queues set paused_at = null where name = queue and paused_at is not null;
  else
    delete from "pgqueue".kinds where name = kind;
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.retire_v1(p_worker uuid, p_unsettled bigint[] DEFAULT '{}'::bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if (select remaining + cardinality(p_unsettled) from "pgqueue".reconcile_v1(p_worker, p_unsettled)) = 0 then
    delete from "pgqueue".workers where id = p_worker;
  else
    update "pgqueue".workers set dead_at = clock_timestamp() where id = p_worker and dead_at is null;
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.retry(id bigint)
 RETURNS text
 LANGUAGE sql
AS $function$
  select outcome from "pgqueue".retry_many_v1(array[id])
$function$;

CREATE OR REPLACE FUNCTION pgqueue.retry_many_v1(p_ids bigint[])
 RETURNS TABLE(id bigint, outcome text, holder bigint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  f "pgqueue".failed_jobs;
begin
  -- In the order in which enqueue takes keys, so that the two can't wait for each other.
  for id in
    select i from (select distinct i from unnest(p_ids) as i) as ids
      left join "pgqueue".failed_jobs on failed_jobs.id = i
     order by failed_jobs.kind, failed_jobs.dedupe_key, i
  loop
    holder := null;
    select * into f from "pgqueue".failed_jobs where failed_jobs.id = retry_many_v1.id for update;
    if not found then
      outcome := 'not_failed';
      return next;
      continue;
    end if;
    insert into "pgqueue".jobs (id, queue, kind, payload, priority, max_attempts, lease_no, dedupe_key,
                              last_error, errors, meta, created_at)
      overriding system value
      values (f.id, f.queue, f.kind, f.payload, f.priority, f.max_attempts, f.lease_no, f.dedupe_key,
              f.last_error, f.errors, f.meta, f.created_at)
      on conflict do nothing;
    if found then
      delete from "pgqueue".failed_jobs where failed_jobs.id = f.id;
      outcome := 'retried';
    else
      select jobs.id into holder from "pgqueue".jobs
       where jobs.kind = f.kind and jobs.dedupe_key = f.dedupe_key;
      outcome := 'conflict';
    end if;
    return next;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.ring()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_queue text;
  v_count int := 0;
begin
  for v_queue in select distinct queue from inserted loop
    v_count := v_count + 1;
    if v_count <= 100 then -- the server has room for so many locks; whoever rings needs none
      perform pg_advisory_xact_lock_shared("pgqueue".enqueuing_key(v_queue));
      -- One expression: as two statements it left the lock behind in 0.6 % of cancelled enqueues.
      continue when case when pg_try_advisory_lock("pgqueue".waiting_key(v_queue))
                      then pg_advisory_unlock("pgqueue".waiting_key(v_queue)) else false end;
    end if;
    perform pg_notify('pgqueue_' || tg_relid, v_queue);
  end loop;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.ring_for(p_queue text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_advisory_xact_lock_shared("pgqueue".enqueuing_key(p_queue));
  if not (case when pg_try_advisory_lock("pgqueue".waiting_key(p_queue))
            then pg_advisory_unlock("pgqueue".waiting_key(p_queue)) else false end) then
    perform pg_notify("pgqueue".doorbell(), p_queue);
  end if;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.ring_schedules()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_notify("pgqueue".doorbell(), '');
  return null;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.ring_unclaimed_v1(p_ids bigint[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
  select pg_notify("pgqueue".doorbell(), q.queue)
    from (select distinct queue from "pgqueue".jobs
           where id = any (p_ids) and waits_for is null and locked_by is null) as q
$function$;

CREATE OR REPLACE FUNCTION pgqueue.room_v1(p_keys text[])
 RETURNS TABLE(key text, slots integer, tat timestamp with time zone, step interval, slack interval)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
  select k.key,
         l.max_running - (select count(*) from "pgqueue".holds h join "pgqueue".jobs j on j.id = h.job_id
                           where h.key = k.key and j.locked_by = h.worker)::int,
         r.tat, s.step, s.step * (s.burst - 1)
    from unnest(p_keys) with ordinality as k(key, ordinal)
    left join "pgqueue".limits l on l.name = split_part(k.key, '/', 1)
    left join "pgqueue".rates r on r.key = k.key
    cross join lateral (
      select b.burst, case when l.rate_burst is null then l.rate_per / (l.rate_max - b.burst + 1)
                           else l.rate_per / l.rate_max end as step
        from (select coalesce(l.rate_burst, greatest(1 + 0.02 * l.rate_max, 0.05 * l.rate_max))::float8 as burst) as b
    ) as s
   order by k.ordinal
$function$;

CREATE OR REPLACE FUNCTION pgqueue.run_schedule(name text)
 RETURNS bigint
 LANGUAGE sql
AS $function$
  insert into "pgqueue".jobs (queue, kind, payload, priority, max_attempts, meta)
    select s.queue, s.kind, s.payload, s.priority, s.max_attempts,
           jsonb_build_object('schedule', jsonb_build_object('name', s.name, 'slot',
             to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
      from "pgqueue".schedules s where s.name = run_schedule.name
    returning id
$function$;

CREATE OR REPLACE FUNCTION pgqueue.schedule()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.waits_for := 'time';
  return new;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.schedule_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  new.turn := old.turn + 1;
  new.next_at := null;
  new.problem := null;
  if (new.cron, new.every_ms, new.time_zone, new.starts_at)
       is distinct from (old.cron, old.every_ms, old.time_zone, old.starts_at)
     or (old.paused_at is not null and new.paused_at is null) then
    new.handled_to := greatest(new.handled_to, clock_timestamp());
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.schedules_key()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select pg_catalog.hashtextextended('schedules', '"pgqueue".jobs'::regclass::oid::bigint)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.set_deadlines_v1(p_ids bigint[], p_deadlines jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
begin
  with given as (
    update "pgqueue".jobs j
       set deadline = coalesce(d.at, clock_timestamp() + d.ms * interval '1 ms')
      from jsonb_to_recordset(p_deadlines) as d(n int, at timestamptz, ms double precision)
     where j.id = p_ids[d.n]
    returning j.id, j.deadline)
  insert into "pgqueue".deadlines (job_id, look_at)
    select id, least(deadline, clock_timestamp() + interval '1 hour') from given
    on conflict (job_id) do update set look_at = excluded.look_at; -- of a job that was replaced
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.set_limit_v1(p_name text, p_queue text, p_kinds text[], p_by text[], p_max_running integer, p_rate_max integer, p_rate_per_ms double precision, p_rate_burst integer, p_declared boolean)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_declared jsonb := case when p_declared then jsonb_build_array(
    p_queue, p_kinds, p_by, p_max_running, p_rate_max, p_rate_per_ms, p_rate_burst) end;
begin
  if exists (select from "pgqueue".limits where name = p_name and declared = v_declared) then return; end if;
  insert into "pgqueue".limits (name, queue, kinds, by, max_running, rate_max, rate_per, rate_burst, declared)
    values (p_name, p_queue, p_kinds, p_by, p_max_running, p_rate_max, p_rate_per_ms * interval '1 ms',
            p_rate_burst, v_declared)
  on conflict (name) do update set
    queue = excluded.queue, kinds = excluded.kinds, by = excluded.by, max_running = excluded.max_running,
    rate_max = excluded.rate_max, rate_per = excluded.rate_per, rate_burst = excluded.rate_burst,
    declared = coalesce(excluded.declared, limits.declared);
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.settle_v1(p_worker uuid, p_lease integer, p_ids bigint[], p_keep boolean, p_result_ids bigint[], p_results jsonb[], p_overflow boolean)
 RETURNS bigint[]
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET lock_timeout TO '5ms'
AS $function$
declare
  p_status constant text := 'done';
  v_ids    bigint[] := p_ids;
  v_stored bigint[];
begin
  loop
    begin
      if not p_keep then
        with gone as (
          delete from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker and cancel_requested_at is null returning id)
        select array_agg(id) into v_stored from gone;
        -- Whoever asked for the end of a job finds it in the history.
        if coalesce(cardinality(v_stored), 0) < cardinality(v_ids) then
          v_ids := array(select id from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker and cancel_requested_at is not null);
          if v_ids <> '{}' then
            v_stored := v_stored || "pgqueue".settle_v1(p_worker, p_lease, v_ids, true, null, null, p_overflow);
          end if;
        end if;
      elsif p_overflow then
        
      with gone as (
        delete from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker returning *
      ), kept as (
        insert into "pgqueue".done_jobs_overflow
        select g.id, g.queue, g.kind, g.payload,
               case when g.cancel_requested_at is null then p_status else 'cancelled' end,
               g.priority, g.run_at, g.attempts, g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key,
               g.last_error, g.errors, g.meta, g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;
      else
        
      with gone as (
        delete from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker returning *
      ), kept as (
        insert into "pgqueue".done_jobs
        select g.id, g.queue, g.kind, g.payload,
               case when g.cancel_requested_at is null then p_status else 'cancelled' end,
               g.priority, g.run_at, g.attempts, g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key,
               g.last_error, g.errors, g.meta, g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;
      end if;
      return v_stored;
    exception when lock_not_available then
      perform set_config('lock_timeout', '0', true);
      v_ids := array(select id from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker order by id for update skip locked);
    end;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.slot_key(key text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select pg_catalog.hashtextextended(key, 2 * 4294967296 + '"pgqueue".jobs'::regclass::oid::bigint)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.sort_by_handler_v1(p_limit integer)
 RETURNS TABLE(queue text, kind text, jobs integer, outcome text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  v_queues text[];
  v_kinds  text[];
begin
  perform pg_advisory_xact_lock("pgqueue".handlers_key());
  select array_agg(q.queue), array_agg(q.kind) into v_queues, v_kinds
    from (select distinct queue, kind from "pgqueue".jobs where waits_for is null and locked_by is null) q
   where not exists (select from "pgqueue".workers w
                      where w.dead_at is null and q.queue = any (w.queues) and q.kind = any (w.kinds)
                        and not q.kind = any (w.paused_kinds));
  if v_kinds is not null then
    for queue, kind, jobs, outcome in
      with moved as (
        update "pgqueue".jobs set waits_for = 'handler' where ctid = any (array(
          select j.ctid from "pgqueue".jobs j
            join unnest(v_queues, v_kinds) as u(queue, kind) on u.queue = j.queue and u.kind = j.kind
           where j.waits_for is null and j.locked_by is null
           limit p_limit for update of j skip locked))
        returning queue, kind)
      select m.queue, m.kind, count(*),
             case when m.kind = any ("pgqueue".paused_kinds()) then 'paused' else 'set_aside' end
        from moved m group by m.queue, m.kind
    loop
      return next;
    end loop;
  end if;

  outcome := 'brought_back';
  for queue, kind, jobs in
    with moved as (
      update "pgqueue".jobs set waits_for = case when run_at > clock_timestamp() then 'time' end
       where ctid = any (array(
        select ctid from "pgqueue".jobs j
         where waits_for = 'handler'
           and exists (select from "pgqueue".workers w
                        where w.dead_at is null and j.queue = any (w.queues) and j.kind = any (w.kinds)
                          and not j.kind = any (w.paused_kinds))
         limit p_limit for update skip locked))
      returning queue, kind)
    select m.queue, m.kind, count(*) from moved m group by m.queue, m.kind
  loop
    perform pg_notify("pgqueue".doorbell(), queue);
    return next;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.sweep_slots_v1()
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  v_keys text[];
  v_ids  bigint[];
  u record;
begin
  -- From key to key, and not from row to row: each may have a hundred thousand.
  with recursive parked as (
    (select parked_on from "pgqueue".jobs where waits_for = 'slot' order by parked_on limit 1)
    union all
    select (select j.parked_on from "pgqueue".jobs j
             where j.waits_for = 'slot' and j.parked_on > p.parked_on order by j.parked_on limit 1)
      from parked p where p.parked_on is not null
  )
  select array_agg(parked_on) into v_keys from parked where parked_on is not null;
  v_keys := array(select r.key from "pgqueue".room_v1(v_keys) as r
                   where coalesce(r.slots, 1) > 0
                     and coalesce(greatest(r.tat, clock_timestamp()) <= clock_timestamp() + r.slack, true)
                   limit 100);
  select * into u from "pgqueue".unpark_v1(v_keys);
  perform "pgqueue".ring_unclaimed_v1(u.unparked);

  -- Locked first and looked at by a later statement: a claim may just be taking such a row over.
  v_ids := array(select h.job_id from "pgqueue".holds h
                  where not exists (select from "pgqueue".jobs j where j.id = h.job_id and j.locked_by = h.worker)
                  limit 1000 for update skip locked);
  delete from "pgqueue".holds h
   where h.job_id = any (v_ids)
     and not exists (select from "pgqueue".jobs j where j.id = h.job_id and j.locked_by = h.worker);
  delete from "pgqueue".rates where key = any (array(
    select key from "pgqueue".rates where due_at is null and tat < clock_timestamp() - interval '1 minute'
     limit 1000 for update skip locked));
  return coalesce(cardinality(u.unparked), 0);
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.unpark_v1(p_keys text[], OUT refused text[], OUT unparked bigint[], OUT first_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
declare
  v_now   timestamptz;
  v_count int;
  v_ids   bigint[];
  v_from  timestamptz;
  v_base  timestamptz;
  v_rate  int;
  k text;
  r record;
begin
  refused := '{}'; unparked := '{}';
  for k in select distinct u from unnest(p_keys) as u order by u limit 100 loop
    if not pg_try_advisory_xact_lock("pgqueue".slot_key(k)) then
      refused := refused || k;
      continue;
    end if;
    v_now := clock_timestamp();
    select * into r from "pgqueue".room_v1(array[k]);
    v_base := greatest(r.tat, v_now);
    v_rate := case when r.step is not null then
      greatest(0, 1 + floor(extract(epoch from v_now + r.slack - v_base) / extract(epoch from r.step)))::int end;
    v_count := least(1000, r.slots, v_rate);
    if v_count > 0 then
      with back as (
        update "pgqueue".jobs set waits_for = null, parked_on = null where ctid = any (array(
          select ctid from "pgqueue".jobs where waits_for = 'slot' and parked_on = k
           order by priority, run_at, id limit v_count for update skip locked))
        returning id, run_at)
      select array_agg(id), min(run_at) into v_ids, v_from from back;
      unparked := unparked || v_ids;
      first_at := least(first_at, v_from);
    end if;
    if r.step is not null then
      -- Else the end of a running job un-parks the next.
      update "pgqueue".rates set due_at = case when v_count = v_rate and exists (
          select from "pgqueue".jobs where waits_for = 'slot' and parked_on = k)
        then v_base + v_rate * r.step - r.slack end
       where key = k;
    end if;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.unsettled_v1(p_worker uuid, p_id bigint, p_lease integer)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  j record;
begin
  select locked_by, lease_no, errors into j from "pgqueue".jobs where id = p_id;
  if found then
    return case
      when j.locked_by = p_worker and j.lease_no = p_lease then 'busy'
      -- A retry or a release of ours. A rescue looks the same, but then the worker is dead.
      when j.locked_by is null and j.lease_no = p_lease
       and exists (select from "pgqueue".workers where id = p_worker and dead_at is null) then 'already'
      when j.errors @> jsonb_build_array(jsonb_build_object('worker', p_worker, 'lease_no', p_lease))
      then 'already'
      else 'lost' end;
  end if;
  return case when exists (
      select from "pgqueue".failed_jobs
       where id = p_id and locked_by = p_worker and lease_no = p_lease
      union all
      select from "pgqueue".done_jobs
       where id = p_id and locked_by = p_worker and lease_no = p_lease
      union all
      select from "pgqueue".done_jobs_overflow
       where id = p_id and locked_by = p_worker and lease_no = p_lease)
    then 'already' else 'lost' end;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.wait_v1(p_queues text[])
 RETURNS TABLE(refused integer, enqueuing text[])
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  refused := (select count(*) from unnest(p_queues) as q
               where not pg_try_advisory_lock_shared("pgqueue".waiting_key(q)));
  -- After the locks: a transaction that did not see them was enqueuing before, and is found here.
  enqueuing := "pgqueue".enqueuing_v1(p_queues);
  return next;
end $function$;

CREATE OR REPLACE FUNCTION pgqueue.waiting_key(queue text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select pg_catalog.hashtextextended(queue, '"pgqueue".jobs'::regclass::oid::bigint)
$function$;

CREATE OR REPLACE FUNCTION pgqueue.with_error(errors jsonb, entry jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select case when entry is null then errors
              when jsonb_array_length(errors) >= 20 then (errors - 0) || entry
              else coalesce(errors, '[]') || entry end
$function$;

CREATE OR REPLACE FUNCTION pgqueue.worker_key(worker uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select pg_catalog.hashtextextended(worker::text, 0)
$function$;
