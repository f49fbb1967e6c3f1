/** How workers live and die, and how the jobs of the dead come back. */
export const leases = /* sql */ `
-- Held shared while a worker registers, exclusively while jobs are sorted by who handles them: what was
-- set aside for want of this worker is then there to be brought back by its first look.
create function pgqueue.handlers_key() returns bigint
language sql stable as $fn$
  select pg_catalog.hashtextextended('handlers', 'pgqueue.jobs'::regclass::oid::bigint)
$fn$;

create function pgqueue.register_v1(
  p_worker uuid, p_name text, p_host text, p_pid int, p_version text, p_queues text[], p_kinds text[],
  p_lease_ms double precision
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  perform pg_advisory_xact_lock_shared(pgqueue.handlers_key());
  insert into pgqueue.queues (name)
    select q from unnest(p_queues) as q order by q on conflict do nothing;
  insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until, paused_kinds)
    values (p_worker, p_name, p_host, p_pid, p_version, p_queues, p_kinds,
            clock_timestamp() + p_lease_ms * interval '1 ms', pgqueue.paused_kinds());
end $fn$;

-- Renews a lease, and tells who else is dead or overdue, so that survivors look after their jobs.
create function pgqueue.heartbeat_v1(p_worker uuid, p_lease_ms double precision)
returns table (alive boolean, overdue uuid[])
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  update pgqueue.workers
     set lease_until = clock_timestamp() + p_lease_ms * interval '1 ms', seen_at = clock_timestamp()
   where id = p_worker and dead_at is null;
  alive := found;
  overdue := array(select id from pgqueue.workers
                    where id <> p_worker and (dead_at is not null or lease_until < clock_timestamp()));
  return next;
end $fn$;

-- Death is one step in one row. The lock waits for exchanges in flight; a heartbeat that commits while we
-- wait for the row makes the condition false. Only a later statement may free the jobs.
create function pgqueue.declare_dead_v1(p_worker uuid) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $fn$
begin
  perform pg_advisory_xact_lock(pgqueue.worker_key(p_worker));
  update pgqueue.workers set dead_at = clock_timestamp()
   where id = p_worker and dead_at is null and lease_until < clock_timestamp();
  return found;
end $fn$;

-- Frees a bounded number of jobs of dead workers. p_strays: also of workers that have no row.
-- The dead are listed first and the rows are taken by a later statement that looks at the row alone:
-- a subquery beside the lock would keep the snapshot from before it.
-- The first death of a job costs it no delay; each further one doubles it, so that a job that kills its
-- worker is not run in a loop. A row that the database refuses to change (a constraint of somebody's) stays
-- and says so; the others don't wait for it.
create function pgqueue.rescue_v1(p_strays boolean, p_limit int)
returns table (id bigint, kind text, worker text, outcome text)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  v_dead  uuid[] := array(select id from pgqueue.workers where dead_at is not null);
  v_rows  bigint[];
  v_error jsonb;
  v_deaths int;
  j record;
begin
  if p_strays then
    v_dead := v_dead || array(
      select distinct locked_by from pgqueue.jobs
       where locked_by is not null and not exists (select from pgqueue.workers w where w.id = locked_by));
  end if;
  if cardinality(v_dead) = 0 then return; end if;

  v_rows := array(select id from pgqueue.jobs where locked_by = any (v_dead)
                   limit p_limit for update skip locked);
  for j in
    select j.ctid, j.*, w.name, w.lease_until
      from pgqueue.jobs j left join pgqueue.workers w on w.id = j.locked_by
     where j.id = any (v_rows)
  loop
    v_error := jsonb_build_object('name', 'WorkerDied', 'message', format(
      'The worker %s died while it ran the job: its lease expired%s',
      coalesce(j.name, j.locked_by::text), coalesce(' at ' || j.lease_until, '')));
    id := j.id; kind := j.kind; worker := coalesce(j.name, j.locked_by::text);
    begin
      if j.cancel_requested_at is not null then
        perform pgqueue.cancel_rows_v1(array[j.ctid], v_error ->> 'message');
        outcome := 'cancelled';
      elsif j.attempts >= j.max_attempts then
        perform pgqueue.bury_v1(array[j.ctid], v_error, null);
        outcome := 'failed';
      else
        v_deaths := jsonb_array_length(
          jsonb_path_query_array(coalesce(j.errors, '[]'), '$[*] ? (@.name == "WorkerDied")'));
        update pgqueue.jobs set
          locked_by = null,
          waits_for = case when v_deaths > 0 then 'time' end,
          run_at = case when v_deaths > 0
            then clock_timestamp() + least(600, 2 ^ least(v_deaths, 20)) * interval '1 s' else run_at end,
          last_error = v_error ->> 'message',
          errors = pgqueue.with_error(errors, v_error || jsonb_build_object('attempt', attempts,
            'at', clock_timestamp()))
         where ctid = j.ctid;
        perform pg_notify(pgqueue.doorbell(), j.queue);
        outcome := 'freed';
      end if;
    exception when data_exception or integrity_constraint_violation then
      outcome := 'refused: ' || sqlerrm;
    end;
    return next;
  end loop;

  -- A dead worker's row goes only when a scan finds no job of it.
  if cardinality(v_rows) < p_limit then
    delete from pgqueue.workers w
     where w.id = any (v_dead) and w.dead_at is not null
       and not exists (select from pgqueue.jobs j where j.locked_by = w.id);
  end if;
end $fn$;

-- Hands back what a worker holds without knowing it: claims whose answer was lost. The new epoch shuts out
-- an exchange that may still be on its way over a broken connection. A job for which that was asked meanwhile
-- is cancelled. epoch is null if the worker is dead; remaining counts rows that someone had locked: call again later.
create function pgqueue.reconcile_v1(p_worker uuid, p_known bigint[])
returns table (epoch int, released int, remaining int)
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $fn$
#variable_conflict use_column
declare
  v_ids bigint[];
  j record;
begin
  perform pg_advisory_xact_lock(pgqueue.worker_key(p_worker));
  update pgqueue.workers w set epoch = w.epoch + 1 where w.id = p_worker and w.dead_at is null
    returning w.epoch into epoch;
  released := 0;
  v_ids := array(select id from pgqueue.jobs where locked_by = p_worker and not id = any (p_known));
  for j in
    update pgqueue.jobs set locked_by = null, attempts = attempts - 1
     where ctid = any (array(select ctid from pgqueue.jobs
                              where id = any (v_ids) and locked_by = p_worker for update skip locked))
    returning ctid, queue, cancel_requested_at
  loop
    released := released + 1;
    if j.cancel_requested_at is not null then
      perform pgqueue.cancel_rows_v1(array[j.ctid], null);
    else
      perform pg_notify(pgqueue.doorbell(), j.queue);
    end if;
  end loop;
  remaining := cardinality(v_ids) - released;
  return next;
end $fn$;

-- The last step of a worker: what it still holds is handed back, and its row goes. If a job of it is locked by
-- someone, or has ended and could not be settled, the worker is marked dead instead: others free those, and
-- the attempt counts.
create function pgqueue.retire_v1(p_worker uuid, p_unsettled bigint[] default '{}') returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if (select remaining + cardinality(p_unsettled) from pgqueue.reconcile_v1(p_worker, p_unsettled)) = 0 then
    delete from pgqueue.workers where id = p_worker;
  else
    update pgqueue.workers set dead_at = clock_timestamp() where id = p_worker and dead_at is null;
  end if;
end $fn$;

-- Sets aside jobs that no live worker handles, or whose kind is paused, so that a long head of them is not
-- walked by every claim, and brings back those that one handles again. Answers what it moved: outcome is
-- set_aside | paused | brought_back.
-- Kinds are compared once each, and jobs only with those that nobody handles: 500,000 ready jobs of handled
-- kinds took 650 ms when each was compared with the kinds of every worker.
create function pgqueue.sort_by_handler_v1(p_limit int)
returns table (queue text, kind text, jobs int, outcome text)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  v_queues text[];
  v_kinds  text[];
begin
  perform pg_advisory_xact_lock(pgqueue.handlers_key());
  select array_agg(q.queue), array_agg(q.kind) into v_queues, v_kinds
    from (select distinct queue, kind from pgqueue.jobs where waits_for is null and locked_by is null) q
   where not exists (select from pgqueue.workers w
                      where w.dead_at is null and q.queue = any (w.queues) and q.kind = any (w.kinds)
                        and not q.kind = any (w.paused_kinds));
  if v_kinds is not null then
    for queue, kind, jobs, outcome in
      with moved as (
        update pgqueue.jobs set waits_for = 'handler' where ctid = any (array(
          select j.ctid from pgqueue.jobs j
            join unnest(v_queues, v_kinds) as u(queue, kind) on u.queue = j.queue and u.kind = j.kind
           where j.waits_for is null and j.locked_by is null
           limit p_limit for update of j skip locked))
        returning queue, kind)
      select m.queue, m.kind, count(*),
             case when m.kind = any (pgqueue.paused_kinds()) then 'paused' else 'set_aside' end
        from moved m group by m.queue, m.kind
    loop
      return next;
    end loop;
  end if;

  outcome := 'brought_back';
  for queue, kind, jobs in
    with moved as (
      update pgqueue.jobs set waits_for = case when run_at > clock_timestamp() then 'time' end
       where ctid = any (array(
        select ctid from pgqueue.jobs j
         where waits_for = 'handler'
           and exists (select from pgqueue.workers w
                        where w.dead_at is null and j.queue = any (w.queues) and j.kind = any (w.kinds)
                          and not j.kind = any (w.paused_kinds))
         limit p_limit for update skip locked))
      returning queue, kind)
    select m.queue, m.kind, count(*) from moved m group by m.queue, m.kind
  loop
    perform pg_notify(pgqueue.doorbell(), queue);
    return next;
  end loop;
end $fn$;

-- A worker begins to wait: from now on whoever enqueues rings. Answers how many queues have to be asked for
-- again, since somebody was just looking whether anybody waits, and the transactions that have enqueued and
-- not ended. Runs on the session that listens, which holds the locks.
create function pgqueue.wait_v1(p_queues text[]) returns table (refused int, enqueuing text[])
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  refused := (select count(*) from unnest(p_queues) as q
               where not pg_try_advisory_lock_shared(pgqueue.waiting_key(q)));
  -- After the locks: a transaction that did not see them was enqueuing before, and is found here.
  enqueuing := pgqueue.enqueuing_v1(p_queues);
  return next;
end $fn$;

-- The transactions that have enqueued into one of the queues and not ended.
create function pgqueue.enqueuing_v1(p_queues text[]) returns text[]
language sql set search_path = pg_catalog, pg_temp as $fn$
  select coalesce(array_agg(distinct virtualtransaction), '{}') from pg_locks
   where locktype = 'advisory' and objsubid = 1
     and database = (select oid from pg_database where datname = current_database())
     and (classid::bigint << 32) | objid::bigint = any (array(
       select pgqueue.enqueuing_key(q) from unnest(p_queues) as q))
$fn$;
`;
