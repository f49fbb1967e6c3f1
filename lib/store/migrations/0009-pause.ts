/** Pausing queues and kinds, slots changed at run time, and the cancelling of many jobs. */
export const pause = /* sql */ `
alter table pgqueue.queues add column concurrency int check (concurrency >= 1);
comment on column pgqueue.queues.concurrency is
  'Slots of the queue in each worker process; null = as the options of the process say.';

create table pgqueue.kinds (
  name       text primary key check (octet_length(name) between 1 and 255),
  paused_at  timestamptz,
  created_at timestamptz not null default now()
);
comment on table pgqueue.kinds is 'Kinds about which somebody has said something. Others need no row.';
comment on column pgqueue.kinds.paused_at is 'Not null = no job of the kind is begun, in any queue.';

-- What a claim needs of the table above, in the row that it reads anyway: no statement and no lock more.
alter table pgqueue.workers add column paused_kinds text[] not null default '{}';
comment on column pgqueue.workers.paused_kinds is 'Kinds that are paused, kept by a trigger of the table kinds.';

-- Workers hear of a change by an empty notification, which can be no queue's name, and read the settings.
-- The name besides wakes those that sleep, for a queue that goes on.
create function pgqueue.queue_changed() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  perform pg_notify(pgqueue.doorbell(), '');
  perform pg_notify(pgqueue.doorbell(), coalesce(new.name, old.name));
  return null;
end $fn$;
create trigger queues_added after insert on pgqueue.queues
  for each row when (new.paused_at is not null or new.concurrency is not null)
  execute function pgqueue.queue_changed();
create trigger queues_changed after update on pgqueue.queues
  for each row when (new.paused_at is distinct from old.paused_at
                     or new.concurrency is distinct from old.concurrency)
  execute function pgqueue.queue_changed();
create trigger queues_removed after delete on pgqueue.queues
  for each row when (old.paused_at is not null or old.concurrency is not null)
  execute function pgqueue.queue_changed();

-- The lock is held shared by whoever registers: a new worker has its row already and is found here, or reads
-- the kinds after our commit. The housekeeping that sets aside jobs of paused kinds, and brings back those of
-- others, is due at once.
create function pgqueue.kinds_changed() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  perform pg_advisory_xact_lock(pgqueue.handlers_key());
  update pgqueue.workers w set paused_kinds = p.kinds
    from (select pgqueue.paused_kinds() as kinds) as p
   where w.paused_kinds <> p.kinds;
  update pgqueue.maintenance set next_at = clock_timestamp() where task = 'handlers';
  perform pg_notify(pgqueue.doorbell(), '');
  return null;
end $fn$;
create trigger kinds_changed after insert or update or delete or truncate on pgqueue.kinds
  for each statement execute function pgqueue.kinds_changed();

create function pgqueue.paused_kinds() returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $fn$
  select array(select name from pgqueue.kinds where paused_at is not null order by name)
$fn$;

-- select pgqueue.pause(queue => 'mail');
-- select pgqueue.pause(kind => 'send_email');
-- What is paused already keeps its time. A queue or kind need not exist yet.
create function pgqueue.pause(queue text default null, kind text default null) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if (queue is null) = (kind is null) then
    raise exception 'Give a queue or a kind' using errcode = 'invalid_parameter_value';
  end if;
  if queue is not null then
    insert into pgqueue.queues as q (name, paused_at) values (queue, clock_timestamp())
      on conflict (name) do update set paused_at = coalesce(q.paused_at, excluded.paused_at);
  else
    insert into pgqueue.kinds as k (name, paused_at) values (kind, clock_timestamp())
      on conflict (name) do update set paused_at = coalesce(k.paused_at, excluded.paused_at);
  end if;
end $fn$;

create function pgqueue.resume(queue text default null, kind text default null) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if (queue is null) = (kind is null) then
    raise exception 'Give a queue or a kind' using errcode = 'invalid_parameter_value';
  end if;
  if queue is not null then
    update pgqueue.queues set paused_at = null where name = queue and paused_at is not null;
  else
    delete from pgqueue.kinds where name = kind;
  end if;
end $fn$;

-- select pgqueue.resize('mail', 5);  -- null = as the options of each process say
create function pgqueue.resize(queue text, concurrency int) returns void
language sql set search_path = pg_catalog, pg_temp as $fn$
  insert into pgqueue.queues (name, concurrency) values ($1, $2)
    on conflict (name) do update set concurrency = excluded.concurrency
$fn$;

-- Ends jobs that wait as cancelled, and answers how many. Those that run, or that somebody has locked (a
-- claim, say), are passed over: nobody waits for anybody.
create function pgqueue.cancel_many_v1(p_ids bigint[]) returns int
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
  v_ids  bigint[];
  v_rows tid[];
begin
  -- The locks first, then a statement that sees what they keep as it is.
  v_ids := array(select id from pgqueue.jobs where id = any (p_ids) and locked_by is null
                  order by id for update skip locked);
  v_rows := array(select ctid from pgqueue.jobs where id = any (v_ids) and locked_by is null);
  perform pgqueue.cancel_rows_v1(v_rows, null);
  return cardinality(v_rows);
end $fn$;
`;
