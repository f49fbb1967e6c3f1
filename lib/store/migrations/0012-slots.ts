/** How slots come back: from jobs that end, and from whatever else leaves one free. */
export const slots = /* sql */ `
-- The slots of jobs that were settled are free, and their keys are answered. Not those of jobs that are still
-- running, since somebody has their rows locked (p_unstored).
create function pgqueue.release_v1(p_worker uuid, p_held bigint[], p_unstored bigint[]) returns text[]
language sql set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off as $fn$
  with gone as (
    delete from pgqueue.holds
     where job_id = any (p_held) and worker = p_worker and not job_id = any (p_unstored)
    returning key)
  select coalesce(array_agg(key), '{}') from gone
$fn$;

-- Rings for those of these jobs that nobody has claimed.
create function pgqueue.ring_unclaimed_v1(p_ids bigint[]) returns void
language sql set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off as $fn$
  select pg_notify(pgqueue.doorbell(), q.queue)
    from (select distinct queue from pgqueue.jobs
           where id = any (p_ids) and waits_for is null and locked_by is null) as q
$fn$;

-- Puts parked jobs back to the ready ones, for as much room as their keys have: all of them if a limit is gone.
--   refused   keys that somebody else is counting: ask again
--   unparked  ids       first_at  the first of their places in the order
create function pgqueue.unpark_v1(
  p_keys text[], out refused text[], out unparked bigint[], out first_at timestamptz
) language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $fn$
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
    if not pg_try_advisory_xact_lock(pgqueue.slot_key(k)) then
      refused := refused || k;
      continue;
    end if;
    v_now := clock_timestamp();
    select * into r from pgqueue.room_v1(array[k]);
    v_base := greatest(r.tat, v_now);
    v_rate := case when r.step is not null then
      greatest(0, 1 + floor(extract(epoch from v_now + r.slack - v_base) / extract(epoch from r.step)))::int end;
    v_count := least(1000, r.slots, v_rate);
    if v_count > 0 then
      with back as (
        update pgqueue.jobs set waits_for = null, parked_on = null where ctid = any (array(
          select ctid from pgqueue.jobs where waits_for = 'slot' and parked_on = k
           order by priority, run_at, id limit v_count for update skip locked))
        returning id, run_at)
      select array_agg(id), min(run_at) into v_ids, v_from from back;
      unparked := unparked || v_ids;
      first_at := least(first_at, v_from);
    end if;
    if r.step is not null then
      -- Else the end of a running job un-parks the next.
      update pgqueue.rates set due_at = case when v_count = v_rate and exists (
          select from pgqueue.jobs where waits_for = 'slot' and parked_on = k)
        then v_base + v_rate * r.step - r.slack end
       where key = k;
    end if;
  end loop;
end $fn$;

-- The safety net: whatever became free without a settlement (a worker died, a limit was raised or removed) is
-- given to those that wait, and what nobody holds any more is forgotten. Answers how many jobs may run now.
create function pgqueue.sweep_slots_v1() returns int
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off
as $fn$
declare
  v_keys text[];
  v_ids  bigint[];
  u record;
begin
  -- From key to key, and not from row to row: each may have a hundred thousand.
  with recursive parked as (
    (select parked_on from pgqueue.jobs where waits_for = 'slot' order by parked_on limit 1)
    union all
    select (select j.parked_on from pgqueue.jobs j
             where j.waits_for = 'slot' and j.parked_on > p.parked_on order by j.parked_on limit 1)
      from parked p where p.parked_on is not null
  )
  select array_agg(parked_on) into v_keys from parked where parked_on is not null;
  v_keys := array(select r.key from pgqueue.room_v1(v_keys) as r
                   where coalesce(r.slots, 1) > 0
                     and coalesce(greatest(r.tat, clock_timestamp()) <= clock_timestamp() + r.slack, true)
                   limit 100);
  select * into u from pgqueue.unpark_v1(v_keys);
  perform pgqueue.ring_unclaimed_v1(u.unparked);

  -- Locked first and looked at by a later statement: a claim may just be taking such a row over.
  v_ids := array(select h.job_id from pgqueue.holds h
                  where not exists (select from pgqueue.jobs j where j.id = h.job_id and j.locked_by = h.worker)
                  limit 1000 for update skip locked);
  delete from pgqueue.holds h
   where h.job_id = any (v_ids)
     and not exists (select from pgqueue.jobs j where j.id = h.job_id and j.locked_by = h.worker);
  delete from pgqueue.rates where key = any (array(
    select key from pgqueue.rates where due_at is null and tat < clock_timestamp() - interval '1 minute'
     limit 1000 for update skip locked));
  return coalesce(cardinality(u.unparked), 0);
end $fn$;

-- A limit was changed: what it parked may have room now. An empty name rings for the sweep.
create function pgqueue.limits_changed() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  update pgqueue.maintenance set next_at = now() where task = 'slots';
  perform pg_notify(pgqueue.doorbell(), '');
  return null;
end $fn$;
create trigger limits_changed after insert or update or delete on pgqueue.limits
  for each statement execute function pgqueue.limits_changed();

-- p_declared: by the code of the application. Said again it changes nothing, so that a change by hand stays.
create function pgqueue.set_limit_v1(
  p_name text, p_queue text, p_kinds text[], p_by text[], p_max_running int,
  p_rate_max int, p_rate_per_ms double precision, p_rate_burst int, p_declared boolean
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
  v_declared jsonb := case when p_declared then jsonb_build_array(
    p_queue, p_kinds, p_by, p_max_running, p_rate_max, p_rate_per_ms, p_rate_burst) end;
begin
  if exists (select from pgqueue.limits where name = p_name and declared = v_declared) then return; end if;
  insert into pgqueue.limits (name, queue, kinds, by, max_running, rate_max, rate_per, rate_burst, declared)
    values (p_name, p_queue, p_kinds, p_by, p_max_running, p_rate_max, p_rate_per_ms * interval '1 ms',
            p_rate_burst, v_declared)
  on conflict (name) do update set
    queue = excluded.queue, kinds = excluded.kinds, by = excluded.by, max_running = excluded.max_running,
    rate_max = excluded.rate_max, rate_per = excluded.rate_per, rate_burst = excluded.rate_burst,
    declared = coalesce(excluded.declared, limits.declared);
end $fn$;
`;
