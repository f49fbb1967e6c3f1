/** How many jobs may run over all workers, and how often they may begin. */
export const limits = /* sql */ `
-- A limit holds for the jobs of its queue and its kinds; null = all. It counts them together, or apart for each
-- value that their payloads have at the path "by". It may be changed at any time: the next claim knows.
create table pgqueue.limits (
  name        text primary key check (octet_length(name) between 1 and 200 and name !~ '/'),
  queue       text,
  kinds       text[],
  by          text[],
  max_running int check (max_running >= 0),
  rate_max    int check (rate_max >= 1),
  rate_per    interval check (rate_per > '0'),
  rate_burst  int check (rate_burst >= 1),
  declared    jsonb,
  check (max_running is not null or rate_max is not null),
  check ((rate_max is null) = (rate_per is null)),
  check (rate_burst is null or rate_max is not null)
);
comment on column pgqueue.limits.by is 'A path into the payload; null = one count for all.';
comment on column pgqueue.limits.rate_burst is
  'Null = never more than rate_max in any rate_per; else so many at once, and rate_max in rate_per on average.';
comment on column pgqueue.limits.declared is
  'What the code of the application said last; a change by hand stays until the code says something else.';

-- Who runs under which key. Nothing counts up or down: a row counts for as long as its worker holds its job,
-- so that a slot of a worker that died, or of a job that was handed back, can't leak.
create table pgqueue.holds (
  job_id bigint not null,
  key    text not null,
  worker uuid not null,
  primary key (job_id, key)
);
create index holds_key on pgqueue.holds (key);

-- Rates, by the generic cell rate algorithm: tat is the theoretical arrival time of the next job.
-- due_at: when parked jobs may begin; null = none is parked for its rate.
create table pgqueue.rates (
  key    text primary key,
  tat    timestamptz not null,
  due_at timestamptz
) with (fillfactor = 50);
create index rates_due on pgqueue.rates (due_at) where due_at is not null;

insert into pgqueue.maintenance (task) values ('slots');

-- What a limit counts: its name, or its name and a value. Long values are cut by a hash.
create function pgqueue.limit_key(name text, by text[], payload jsonb) returns text
language sql immutable parallel safe as $fn$
  select case
    when by is null then name
    when octet_length(payload #>> by) > 200 then name || '/md5:' || md5(payload #>> by)
    else name || '/' || coalesce(payload #>> by, '') end
$fn$;

-- Whoever counts a key or un-parks its jobs holds this to the end of the transaction; nobody waits for it.
create function pgqueue.slot_key(key text) returns bigint
language sql stable as $fn$
  select pg_catalog.hashtextextended(key, 2 * 4294967296 + 'pgqueue.jobs'::regclass::oid::bigint)
$fn$;

-- The room of keys that the caller has locked, by a statement after the lock: slots that are not held, and the
-- rate. step is the time between two jobs, slack how much of it may be made up. Without a burst of its own a
-- rate has one of 5 %, or at least as much as makes up for a claim that comes late, and steps that keep any
-- window at or below rate_max all the same.
create function pgqueue.room_v1(p_keys text[]) returns table (
  key text, slots int, tat timestamptz, step interval, slack interval)
language sql stable set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off as $fn$
  select k.key,
         l.max_running - (select count(*) from pgqueue.holds h join pgqueue.jobs j on j.id = h.job_id
                           where h.key = k.key and j.locked_by = h.worker)::int,
         r.tat, s.step, s.step * (s.burst - 1)
    from unnest(p_keys) with ordinality as k(key, ordinal)
    left join pgqueue.limits l on l.name = split_part(k.key, '/', 1)
    left join pgqueue.rates r on r.key = k.key
    cross join lateral (
      select b.burst, case when l.rate_burst is null then l.rate_per / (l.rate_max - b.burst + 1)
                           else l.rate_per / l.rate_max end as step
        from (select coalesce(l.rate_burst, greatest(1 + 0.02 * l.rate_max, 0.05 * l.rate_max))::float8 as burst) as b
    ) as s
   order by k.ordinal
$fn$;

-- Which of the rows that a claim has picked (and locked) may run under the limits. The others are parked under
-- the key that has no room, off the ready index, so that they stand in nobody's way: and with them up to a
-- thousand more of the queue under the same keys. p_picked are rows that other looks have picked. Rows of a key that somebody else is counting now are skipped.
--   admitted  rows, in order     limited  ids of those under a limit
--   parked    how many           skipped  whether rows were left that may run a moment later
create function pgqueue.admit_v1(
  p_worker uuid, p_queue text, p_rows tid[], p_picked tid[],
  out admitted tid[], out limited bigint[], out parked int, out skipped boolean
) language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $fn$
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
    select distinct pgqueue.limit_key(l.name, l.by, j.payload)
      from pgqueue.jobs j join pgqueue.limits l
        on (l.queue is null or l.queue = j.queue) and (l.kinds is null or j.kind = any (l.kinds))
     where j.ctid = any (p_rows) order by 1 limit 100);
  if v_wanted = '{}' then
    admitted := p_rows;
    return;
  end if;
  foreach v_key in array v_wanted loop
    if pg_try_advisory_xact_lock(pgqueue.slot_key(v_key)) then v_keys := v_keys || v_key; end if;
  end loop;
  v_now := clock_timestamp();
  select array_agg(r.slots), array_agg(r.tat), array_agg(r.step), array_agg(r.slack), array_agg(false)
    into v_slots, v_tats, v_steps, v_slacks, v_charged from pgqueue.room_v1(v_keys) as r;

  for j in
    select p.ctid, p.id, p.priority, p.run_at,
           array(select pgqueue.limit_key(l.name, l.by, p.payload) from pgqueue.limits l
                  where (l.queue is null or l.queue = p.queue) and (l.kinds is null or p.kind = any (l.kinds))
                  order by l.name) as keys
      from pgqueue.jobs p where p.ctid = any (p_rows)
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
        select from pgqueue.jobs w where w.waits_for = 'slot' and w.parked_on = v_key
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
  insert into pgqueue.holds (job_id, key, worker)
    select h.job_id, h.key, p_worker from unnest(v_hold_ids, v_hold_keys) as h(job_id, key)
    on conflict (job_id, key) do update set worker = excluded.worker;
  foreach v_key in array v_full loop
    v_rows := array(select p.row from unnest(v_park_rows, v_park_keys) as p(row, key) where p.key = v_key);
    parked := parked + pgqueue.park_v1(v_key, p_queue, v_rows, p_picked || admitted);
  end loop;
  insert into pgqueue.rates (key, tat, due_at)
    select r.key, r.tat, case when r.key = any (v_late) then r.tat - r.slack end
      from unnest(v_keys, v_tats, v_steps, v_slacks, v_charged) as r(key, tat, step, slack, charged)
     where r.step is not null and (r.charged or r.key = any (v_late))
    on conflict (key) do update set tat = excluded.tat, due_at = coalesce(excluded.due_at, rates.due_at);
  if v_behind <> '{}' then
    skipped := true;
    perform pgqueue.ring_unclaimed_v1(u.unparked) from pgqueue.unpark_v1(v_behind) as u;
  end if;
end $fn$;

-- Parks rows that the caller has locked, and up to a thousand more of the first ones of the queue under the same
-- key: a hundred thousand jobs of one customer are out of the others' way after a hundred claims.
create function pgqueue.park_v1(p_key text, p_queue text, p_rows tid[], p_except tid[]) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $fn$
declare
  v_rows tid[] := array(
    select j.ctid from pgqueue.jobs j
     where j.ctid = any (array(
       select w.ctid
         from (select ctid, queue, kind, payload from pgqueue.jobs
                where queue = p_queue and waits_for is null and locked_by is null
                  and run_at <= clock_timestamp()
                order by priority, run_at, id limit 1000) as w
         join pgqueue.limits l on l.name = split_part(p_key, '/', 1)
        where (l.queue is null or l.queue = w.queue) and (l.kinds is null or w.kind = any (l.kinds))
          and pgqueue.limit_key(l.name, l.by, w.payload) = p_key))
       and j.waits_for is null and j.locked_by is null and j.ctid <> all (p_except)
       for update skip locked);
  v_count int;
begin
  update pgqueue.jobs set waits_for = 'slot', parked_on = p_key
   where ctid = any (p_rows || v_rows) and waits_for is null;
  get diagnostics v_count = row_count;
  return v_count;
end $fn$;
`;
