/** Schedules: what they are, and who declares them. How they fire is in 0007-schedules-fire. */
export const schedules = /* sql */ `
-- A row is a schedule; one inserted by hand is complete. The rule is in the first columns, and what became of
-- it in the others, which belong to the workers.
create table pgqueue.schedules (
  name         text primary key check (octet_length(name) between 1 and 255),
  kind         text not null check (octet_length(kind) between 1 and 255),
  queue        text not null default 'default' check (octet_length(queue) between 1 and 255),
  payload      jsonb not null default '{}',
  priority     smallint not null default 0,
  max_attempts int not null default 5,
  cron         text,
  every_ms     bigint check (every_ms >= 1000),
  time_zone    text not null default 'UTC',
  starts_at    timestamptz,
  ends_at      timestamptz,
  catch_up     text not null default 'latest' check (catch_up in ('skip', 'latest', 'all')),
  declared     boolean not null default false,
  paused_at    timestamptz,
  turn         int not null default 0,
  handled_to   timestamptz not null default now(),
  next_at      timestamptz,
  last_slot    timestamptz,
  problem      text,
  created_at   timestamptz not null default now(),
  check ((cron is null) <> (every_ms is null))
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
comment on column pgqueue.schedules.declared is 'By @JobSchedule: it follows the newest live worker that declares it.';
comment on column pgqueue.schedules.turn is 'Counts changes: whoever decided by an older state does nothing.';
comment on column pgqueue.schedules.handled_to is 'Slots until then were fired, or left out.';
comment on column pgqueue.schedules.next_at is 'When to look at it next; null = at once, infinity = never.';
comment on column pgqueue.schedules.problem is 'Why it did not fire; it is tried again.';

-- One job a slot: whoever inserts the row makes the job.
create table pgqueue.schedule_slots (
  schedule text not null,
  slot     timestamptz not null,
  job_id   bigint not null,
  fired_at timestamptz not null default clock_timestamp(),
  primary key (schedule, slot)
);

-- What each worker's code says. A schedule is declared as long as one of these workers lives.
create table pgqueue.schedule_declarations (
  worker       uuid not null,
  name         text not null,
  declared_at  timestamptz not null,
  kind         text not null,
  queue        text not null,
  payload      jsonb not null,
  priority     smallint not null,
  max_attempts int not null,
  cron         text,
  every_ms     bigint,
  time_zone    text not null,
  starts_at    timestamptz,
  ends_at      timestamptz,
  catch_up     text not null,
  primary key (name, worker)
);
comment on column pgqueue.schedule_declarations.declared_at is 'When the process began: the newest live one counts.';

-- Held by whoever changes schedules by what is declared.
create function pgqueue.schedules_key() returns bigint
language sql stable as $fn$
  select pg_catalog.hashtextextended('schedules', 'pgqueue.jobs'::regclass::oid::bigint)
$fn$;

-- Whoever changes a rule, by whatever means: decisions by the old one are void, and a calendar that is new or
-- was paused counts from now on.
create function pgqueue.schedule_changed() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
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
end $fn$;
create trigger schedules_changed
  before update of kind, queue, payload, priority, max_attempts, cron, every_ms, time_zone, starts_at, ends_at,
                   catch_up, paused_at on pgqueue.schedules
  for each row when (
    (new.kind, new.queue, new.payload, new.priority, new.max_attempts, new.cron, new.every_ms, new.time_zone,
     new.starts_at, new.ends_at, new.catch_up, new.paused_at)
    is distinct from
    (old.kind, old.queue, old.payload, old.priority, old.max_attempts, old.cron, old.every_ms, old.time_zone,
     old.starts_at, old.ends_at, old.catch_up, old.paused_at))
  execute function pgqueue.schedule_changed();

-- Workers sleep until the next slot that they know of. No queue has an empty name.
create function pgqueue.ring_schedules() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  perform pg_notify(pgqueue.doorbell(), '');
  return null;
end $fn$;
create trigger schedules_ring
  after insert or update of kind, queue, cron, every_ms, time_zone, starts_at, ends_at, paused_at on pgqueue.schedules
  for each statement execute function pgqueue.ring_schedules();

-- The newest declaration of each name among live workers.
create view pgqueue.schedules_in_code as
  select distinct on (d.name) d.*
    from pgqueue.schedule_declarations d join pgqueue.workers w on w.id = d.worker
   where w.dead_at is null
   order by d.name, d.declared_at desc, d.worker;

-- Declared schedules that differ from it.
create view pgqueue.schedules_to_follow as
  select c.* from pgqueue.schedules s join pgqueue.schedules_in_code c on c.name = s.name
   where s.declared
     and (s.kind, s.queue, s.payload, s.priority, s.max_attempts, s.cron, s.every_ms, s.time_zone, s.starts_at,
          s.ends_at, s.catch_up)
         is distinct from
         (c.kind, c.queue, c.payload, c.priority, c.max_attempts, c.cron, c.every_ms, c.time_zone, c.starts_at,
          c.ends_at, c.catch_up);

-- Under the lock, and in a later statement than it. A row that somebody has locked is the next look's.
create function pgqueue.follow_declarations_v1() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  update pgqueue.schedules s
     set kind = c.kind, queue = c.queue, payload = c.payload, priority = c.priority,
         max_attempts = c.max_attempts, cron = c.cron, every_ms = c.every_ms, time_zone = c.time_zone,
         starts_at = c.starts_at, ends_at = c.ends_at, catch_up = c.catch_up
    from pgqueue.schedules_to_follow c
   where s.name = c.name and s.name = any (array(
     select x.name from pgqueue.schedules x
      where x.declared and x.name in (select f.name from pgqueue.schedules_to_follow f)
        for update skip locked));
end $fn$;

-- A worker has begun a life: what its code says. p_age_ms is how long ago the process said so first, so that an
-- old process that begins another life does not count as new. Answers the names that schedules made by hand have.
create function pgqueue.declare_schedules_v1(p_worker uuid, p_age_ms double precision, p_schedules jsonb)
returns table (name text)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(pgqueue.schedules_key());
  delete from pgqueue.schedule_declarations d
   where not exists (select from pgqueue.workers w where w.id = d.worker);
  insert into pgqueue.schedule_declarations
    select p_worker, n.name, clock_timestamp() - p_age_ms * interval '1 ms', n.kind, n.queue, n.payload,
           coalesce(n.priority, 0), coalesce(n.max_attempts, 5), n.cron, n.every_ms, n.time_zone,
           n.starts_at, n.ends_at, n.catch_up
      from jsonb_to_recordset(p_schedules) as n(
             name text, kind text, queue text, payload jsonb, priority smallint, max_attempts int, cron text,
             every_ms bigint, time_zone text, starts_at timestamptz, ends_at timestamptz, catch_up text)
    on conflict do nothing;
  insert into pgqueue.schedules (name, kind, queue, payload, priority, max_attempts, cron, every_ms,
                                 time_zone, starts_at, ends_at, catch_up, declared)
    select c.name, c.kind, c.queue, c.payload, c.priority, c.max_attempts, c.cron, c.every_ms, c.time_zone,
           c.starts_at, c.ends_at, c.catch_up, true
      from pgqueue.schedules_in_code c order by c.name
    on conflict do nothing;
  perform pgqueue.follow_declarations_v1();
  -- This worker may handle what nobody did.
  update pgqueue.schedules set next_at = null where name = any (array(
    select s.name from pgqueue.schedules s where s.problem is not null for update skip locked));
  delete from pgqueue.schedule_slots o
   where o.fired_at < clock_timestamp() - interval '1 day'
     and not exists (select from pgqueue.schedules s where s.name = o.schedule);
  return query
    select s.name from pgqueue.schedules s join pgqueue.schedule_declarations d on d.name = s.name
     where d.worker = p_worker and not s.declared order by s.name;
end $fn$;
`;
