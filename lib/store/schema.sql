-- What all migrations together make, as PostgreSQL 18 describes it.
-- Written by "npm run schema:dump": change it by a migration.

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

create table pgqueue.jobs (
  id bigint not null generated always as identity,
  queue text not null default 'default'::text,
  kind text not null,
  payload jsonb not null default '{}'::jsonb,
  waits_for text,
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
  constraint jobs_pkey PRIMARY KEY (id),
  constraint jobs_dedupe_key_check CHECK (((octet_length(dedupe_key) >= 1) AND (octet_length(dedupe_key) <= 1024))),
  constraint jobs_errors_check CHECK ((jsonb_typeof(errors) = 'array'::text)),
  constraint jobs_kind_check CHECK (((octet_length(kind) >= 1) AND (octet_length(kind) <= 255))),
  constraint jobs_queue_check CHECK (((octet_length(queue) >= 1) AND (octet_length(queue) <= 255))),
  constraint jobs_waits_for_check CHECK ((waits_for = ANY (ARRAY['time'::text, 'handler'::text])))
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
CREATE INDEX jobs_ready ON pgqueue.jobs USING btree (queue, priority, run_at, id) WHERE (waits_for IS NULL);
CREATE TRIGGER jobs_ring AFTER INSERT ON pgqueue.jobs REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION pgqueue.ring();
CREATE TRIGGER jobs_schedule BEFORE INSERT OR UPDATE OF run_at ON pgqueue.jobs FOR EACH ROW WHEN (((new.run_at > now()) AND (new.waits_for IS NULL))) EXECUTE FUNCTION pgqueue.schedule();
comment on table pgqueue.jobs is 'Pending jobs. An insert with a kind and a payload is a complete enqueue.';
comment on column pgqueue.jobs.waits_for is 'What the job waits for besides a free worker; null = nothing.';
comment on column pgqueue.jobs.lease_no is 'Counts the claims and is never reset: the fencing token.';
comment on column pgqueue.jobs.locked_by is 'The worker that holds the job.';
comment on column pgqueue.jobs.dedupe_key is 'At most one pending job per (kind, dedupe_key).';

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
  constraint queues_pkey PRIMARY KEY (name)
);
comment on column pgqueue.queues.paused_at is 'Not null = no job of the queue is begun.';

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
  constraint workers_pkey PRIMARY KEY (id)
)
with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 200,
  fillfactor = 50
);
comment on column pgqueue.workers.epoch is 'Which of its connections may claim: +1 at every reconnect.';
comment on column pgqueue.workers.dead_at is 'Set once, when the lease had ended; only then are its jobs freed.';

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
        select g.id, g.queue, g.kind, g.payload, p_status, g.priority, g.run_at, g.attempts,
               g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key, g.last_error, g.errors, g.meta,
               g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;
  else
    
      with gone as (
        delete from "pgqueue".jobs where ctid = any (p_rows) returning *
      ), kept as (
        insert into "pgqueue".done_jobs
        select g.id, g.queue, g.kind, g.payload, p_status, g.priority, g.run_at, g.attempts,
               g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key, g.last_error, g.errors, g.meta,
               g.created_at, clock_timestamp(), r.result
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
  select ctid, locked_by into j from "pgqueue".jobs where jobs.id = cancel.id;
  if not found then
    return case when exists (select from "pgqueue".all_jobs where all_jobs.id = cancel.id)
      then 'finished' else 'not_found' end;
  end if;
  if j.locked_by is not null then return 'running'; end if;
  begin
    perform "pgqueue".archive_v1(array[j.ctid], 'cancelled', false);
  exception when check_violation then
    perform "pgqueue".archive_v1(array[j.ctid], 'cancelled', true);
  end;
  return 'cancelled';
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
    select greatest(min(coalesce(s.next_at, v_now)), v_now) from "pgqueue".schedules s
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

CREATE OR REPLACE FUNCTION pgqueue.enqueue(kind text, payload jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT 0, max_attempts integer DEFAULT 5, dedupe_key text DEFAULT NULL::text, meta jsonb DEFAULT NULL::jsonb)
 RETURNS bigint
 LANGUAGE sql
AS $function$
  select ids[1] from "pgqueue".enqueue_many_v1(
    array[queue], array[kind], jsonb_build_array(payload), array[priority::smallint], array[run_at], null,
    array[max_attempts], case when dedupe_key is not null then array[dedupe_key] end, array[meta])
$function$;

CREATE OR REPLACE FUNCTION pgqueue.enqueue_many_v1(p_queues text[], p_kinds text[], p_payloads jsonb, p_priorities smallint[], p_run_ats timestamp with time zone[], p_delays double precision[], p_max_attempts integer[], p_dedupe_keys text[], p_metas jsonb[], p_lock_timeout integer DEFAULT NULL::integer)
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

CREATE OR REPLACE FUNCTION pgqueue.exchange_v1(p_worker uuid, p_epoch integer, p_done bigint[], p_leases integer[], p_keeps boolean[], p_results jsonb[], p_outcomes jsonb, p_looks jsonb, p_due_after timestamp with time zone, p_overflow boolean, p_budget integer DEFAULT NULL::integer)
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
  v_due     timestamptz;
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
  select epoch, dead_at, kinds into v_worker from "pgqueue".workers where id = p_worker;

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
    for o in
      select * from jsonb_to_recordset(p_outcomes) as o(
        id bigint, lease_no int, action text, delay_ms double precision, run_at timestamptz, error jsonb)
       order by o.id
    loop
      select ctid, queue, run_at, attempts, lease_no, errors into j from "pgqueue".jobs
       where id = o.id and lease_no = o.lease_no and locked_by = p_worker
         for update skip locked;
      if not found then
        v_unstored := v_unstored || o.id;
        v_answers := v_answers || "pgqueue".unsettled_v1(p_worker, o.id, o.lease_no);
        continue;
      end if;
      case o.action
        when 'retry', 'release' then
          v_due := coalesce(o.run_at, v_now + o.delay_ms * interval '1 ms');
          update "pgqueue".jobs set
            locked_by = null,
            attempts = attempts - case when o.action = 'release' then 1 else 0 end,
            run_at = coalesce(v_due, run_at),
            waits_for = case when v_due is not null then 'time' end,
            last_error = coalesce(o.error ->> 'message', last_error),
            errors = "pgqueue".with_error(errors, o.error || jsonb_build_object('attempt', attempts,
              'lease_no', lease_no, 'worker', p_worker, 'at', v_now))
           where ctid = j.ctid;
          if v_due is null then
            v_released := v_released || j.queue;
            v_from := least(v_from, j.run_at);
          else
            v_due_after := least(v_due_after, v_due);
          end if;
        when 'fail' then
          perform "pgqueue".bury_v1(array[j.ctid], o.error, p_worker);
        when 'cancel' then
          update "pgqueue".jobs set last_error = o.error ->> 'message' where ctid = j.ctid
            returning ctid into j.ctid;
          perform "pgqueue".archive_v1(array[j.ctid], 'cancelled', p_overflow);
      end case;
    end loop;
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
        v_kinds := coalesce(look.of_kinds, v_all - look.not_kinds, v_all);
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
        v_picked := v_picked || v_taken;
        select v_places || jsonb_build_object('look', look.ordinal, 'p', priority, 'r', run_at, 'i', id::text)
          into v_places from "pgqueue".jobs where ctid = v_taken[cardinality(v_taken)];
      end loop;
    end if;
    return query select 'alive', null::bigint, null::int, null::text, null::text,
      jsonb_build_object('due', nullif(v_due_after, '-infinity'), 'last', v_places,
        'took', 1000 * extract(epoch from clock_timestamp() - v_looked)),
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
           set locked_by = p_worker, attempts = attempts + 1, lease_no = lease_no + 1
         where ctid = any (v_picked) and attempts < max_attempts
        returning id, lease_no, queue, kind, payload, attempts, max_attempts, meta, created_at,
                  priority, run_at)
      select 'job', c.id, c.lease_no, c.queue, c.kind, c.payload, c.priority, c.attempts, c.max_attempts, c.meta,
             c.created_at, null::double precision
        from claimed c order by c.priority, c.run_at, c.id;
    get diagnostics v_count = row_count;
    if v_count < cardinality(v_picked) then
      -- A budget that was spent by a crash, or lowered by hand, ends here without a run.
      v_rows := array(select ctid from "pgqueue".jobs where ctid = any (v_picked) and attempts >= max_attempts);
      return query select 'spent', j.id, null::int, j.queue, j.kind, null::jsonb, null::smallint, null::int, null::int,
        null::jsonb, null::timestamptz, null::double precision
        from "pgqueue".jobs j where j.ctid = any (v_rows);
      perform "pgqueue".bury_v1(v_rows, jsonb_build_object('name', 'AttemptsSpent',
        'message', 'The job had no attempts left when it was due'), null);
    end if;
  end if;
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
    returning queue
  loop
    released := released + 1;
    perform pg_notify("pgqueue".doorbell(), j.queue);
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
  insert into "pgqueue".workers (id, name, host, pid, version, queues, kinds, lease_until)
    values (p_worker, p_name, p_host, p_pid, p_version, p_queues, p_kinds,
            clock_timestamp() + p_lease_ms * interval '1 ms');
end $function$;

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
      if j.attempts >= j.max_attempts then
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

CREATE OR REPLACE FUNCTION pgqueue.ring_schedules()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_notify("pgqueue".doorbell(), '');
  return null;
end $function$;

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
          delete from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker returning id)
        select array_agg(id) into v_stored from gone;
      elsif p_overflow then
        
      with gone as (
        delete from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker returning *
      ), kept as (
        insert into "pgqueue".done_jobs_overflow
        select g.id, g.queue, g.kind, g.payload, p_status, g.priority, g.run_at, g.attempts,
               g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key, g.last_error, g.errors, g.meta,
               g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;
      else
        
      with gone as (
        delete from "pgqueue".jobs where id = any (v_ids) and lease_no = p_lease and locked_by = p_worker returning *
      ), kept as (
        insert into "pgqueue".done_jobs
        select g.id, g.queue, g.kind, g.payload, p_status, g.priority, g.run_at, g.attempts,
               g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key, g.last_error, g.errors, g.meta,
               g.created_at, clock_timestamp(), r.result
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
  outcome := 'set_aside';
  select array_agg(q.queue), array_agg(q.kind) into v_queues, v_kinds
    from (select distinct queue, kind from "pgqueue".jobs where waits_for is null and locked_by is null) q
   where not exists (select from "pgqueue".workers w
                      where w.dead_at is null and q.queue = any (w.queues) and q.kind = any (w.kinds));
  if v_kinds is not null then
    for queue, kind, jobs in
      with moved as (
        update "pgqueue".jobs set waits_for = 'handler' where ctid = any (array(
          select j.ctid from "pgqueue".jobs j
            join unnest(v_queues, v_kinds) as u(queue, kind) on u.queue = j.queue and u.kind = j.kind
           where j.waits_for is null and j.locked_by is null
           limit p_limit for update of j skip locked))
        returning queue, kind)
      select m.queue, m.kind, count(*) from moved m group by m.queue, m.kind
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
                        where w.dead_at is null and j.queue = any (w.queues) and j.kind = any (w.kinds))
         limit p_limit for update skip locked))
      returning queue, kind)
    select m.queue, m.kind, count(*) from moved m group by m.queue, m.kind
  loop
    perform pg_notify("pgqueue".doorbell(), queue);
    return next;
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
