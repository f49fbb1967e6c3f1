/** How jobs run: settle and claim in one round trip and one commit. */
export const exchange = /* sql */ `
-- Held shared by every exchange of a worker, exclusively by whoever ends its epoch or its life.
create function pgqueue.worker_key(worker uuid) returns bigint
language sql immutable parallel safe as $fn$
  select pg_catalog.hashtextextended(worker::text, 0)
$fn$;

-- The errors column with one more entry; the latest 20 are kept.
create function pgqueue.with_error(errors jsonb, entry jsonb) returns jsonb
language sql immutable as $fn$
  select case when entry is null then errors
              when jsonb_array_length(errors) >= 20 then (errors - 0) || entry
              else coalesce(errors, '[]') || entry end
$fn$;

-- Moves jobs that the caller has locked to the history. p_result_ids and p_results are parallel.
-- Pinned here too, as the next one is: a session keeps plans, and one that had cancelled or rescued jobs
-- while the table was small read all of it in every exchange from then on.
create function pgqueue.archive_v1(
  p_rows tid[], p_status text, p_result_ids bigint[], p_results jsonb[], p_overflow boolean
) returns void
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $fn$
begin
  with gone as (
    delete from pgqueue.jobs where ctid = any (p_rows) returning *
  ), history as (
    select g.id, g.queue, g.kind, g.payload, p_status, g.priority, g.run_at, g.attempts,
           g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key, g.last_error, g.errors, g.meta,
           g.created_at, clock_timestamp(), r.result
      from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
  ), overflow as (
    insert into pgqueue.done_jobs_overflow select * from history where p_overflow
  )
  insert into pgqueue.done_jobs select * from history where not p_overflow;
end $fn$;

-- Moves jobs that the caller has locked to the dead letters. p_reporter is null for a job whose worker died.
-- An older dead letter of the same id, left over when somebody reset the ids, gives way: a claim must not
-- fail because of one row.
create function pgqueue.bury_v1(p_rows tid[], p_error jsonb, p_reporter uuid) returns void
language sql set enable_seqscan = off set enable_bitmapscan = off as $fn$
  delete from pgqueue.failed_jobs where id = any (array(
    select id from pgqueue.jobs where ctid = any (p_rows)));
  with gone as (
    delete from pgqueue.jobs where ctid = any (p_rows) returning *
  )
  insert into pgqueue.failed_jobs
    (id, queue, kind, payload, priority, run_at, attempts, max_attempts, lease_no, locked_by,
     dedupe_key, last_error, errors, meta, created_at, failed_at)
  select id, queue, kind, payload, priority, run_at, attempts, max_attempts, lease_no, p_reporter,
         dedupe_key, coalesce(p_error ->> 'message', last_error),
         pgqueue.with_error(errors, p_error || jsonb_build_object('attempt', attempts,
           'lease_no', lease_no, 'worker', p_reporter, 'at', clock_timestamp())),
         meta, created_at, clock_timestamp()
    from gone
$fn$;

-- Why a settlement found no row to change:
--   already  it was stored before, its answer got lost
--   busy     the row is still this worker's, but someone has it locked: send again
--   lost     the job is not this worker's any more
create function pgqueue.unsettled_v1(p_worker uuid, p_id bigint, p_lease int) returns text
language plpgsql as $fn$
declare
  j record;
begin
  select locked_by, lease_no, errors into j from pgqueue.jobs where id = p_id;
  if found then
    return case
      when j.locked_by = p_worker and j.lease_no = p_lease then 'busy'
      -- A retry or a release of ours. A rescue looks the same, but then the worker is dead.
      when j.locked_by is null and j.lease_no = p_lease
       and exists (select from pgqueue.workers where id = p_worker and dead_at is null) then 'already'
      when j.errors @> jsonb_build_array(jsonb_build_object('worker', p_worker, 'lease_no', p_lease))
      then 'already'
      else 'lost' end;
  end if;
  return case when exists (
      select from pgqueue.failed_jobs
       where id = p_id and locked_by = p_worker and lease_no = p_lease
      union all
      select from pgqueue.done_jobs
       where id = p_id and locked_by = p_worker and lease_no = p_lease
      union all
      select from pgqueue.done_jobs_overflow
       where id = p_id and locked_by = p_worker and lease_no = p_lease)
    then 'already' else 'lost' end;
end $fn$;

-- One round trip of a worker. Settles what has ended, then claims for every lane with free slots.
--   p_done, p_done_leases   jobs that succeeded, and the lease number each was claimed under
--   p_unkept                those of p_done that leave no history
--   p_results               parallel to p_done; null = no result
--   p_outcomes              all other ends: [{id, lease_no, action, delay_ms | run_at, error}]
--                           action: retry | release (the attempt is given back) | fail | cancel
--   p_lanes                 [{queue, kinds, want, slots, free}]: lanes of the same slots get no more than free
--                           between them, the one that wants least first
--   p_overflow              history goes to the overflow table, since today has no partition
--   p_budget                no more jobs than this over all lanes; null = no bound
-- The first row answers for the worker: 'alive', or 'dead' or 'stale' if nothing was claimed because it was
-- declared dead or has reconnected since; due_in is the time to the next scheduled job in milliseconds.
-- Then come settlements that were not stored (see unsettled_v1), claimed jobs ('job') in order, and jobs that
-- were due with a spent budget ('spent'): they are failed jobs now, and there may be more behind them.
--
-- Every statement is pinned to its index: the same claim fell from 34 k to 11 k jobs/s when the planner
-- turned to a hash join at batches of 500. Sorting stays allowed: without it a settle of three rows walked
-- the whole primary key.
create function pgqueue.exchange_v1(
  p_worker uuid, p_epoch int,
  p_done bigint[], p_done_leases int[], p_unkept bigint[], p_results jsonb[],
  p_outcomes jsonb, p_lanes jsonb, p_overflow boolean, p_budget int default null
) returns table (
  answer text, id bigint, lease_no int, queue text, kind text, payload jsonb, attempt int,
  max_attempts int, meta jsonb, created_at timestamptz, due_in double precision)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $fn$
#variable_conflict use_column
declare
  v_now     timestamptz;
  v_worker  record;
  v_lease   int;
  v_ids     bigint[];
  v_results jsonb[];
  v_rows    tid[];
  v_locked  bigint[];
  v_kept    tid[];
  v_due     timestamptz;
  v_next    timestamptz;
  v_picked  tid[] := '{}';
  v_count   int;
  v_slots   text;
  v_before  int := 0;
  v_released text[] := '{}';
  v_unstored bigint[] := '{}';
  v_answers  text[] := '{}';
  o record;
  j record;
  lane record;
begin
  -- After the lock, so that whoever declares death or bumps the epoch has either ended or waits for us;
  -- and in a later statement than the lock, which alone sees what it changed.
  perform pg_advisory_xact_lock_shared(pgqueue.worker_key(p_worker));
  v_now := clock_timestamp();
  select epoch, dead_at into v_worker from pgqueue.workers where id = p_worker;

  for v_lease in select distinct l from unnest(p_done_leases) as l loop
    select array_agg(d.id), array_agg(d.result) into v_ids, v_results
      from unnest(p_done, p_done_leases, p_results) as d(id, lease, result) where d.lease = v_lease;
    select array_agg(l.ctid), array_agg(l.id), array_agg(l.ctid) filter (where not l.id = any (p_unkept))
      into v_rows, v_locked, v_kept
      from (select ctid, id from pgqueue.jobs
             where id = any (v_ids) and lease_no = v_lease and locked_by = p_worker
             order by id for update skip locked) as l;
    if v_kept is not null then
      perform pgqueue.archive_v1(v_kept, 'done', v_ids, v_results, p_overflow);
    end if;
    if cardinality(v_kept) is distinct from cardinality(v_rows) then
      delete from pgqueue.jobs where ctid = any (v_rows);
    end if;
    if coalesce(cardinality(v_locked), 0) < cardinality(v_ids) then
      for o in select i.id from unnest(v_ids) as i(id) where not i.id = any (coalesce(v_locked, '{}')) loop
        v_unstored := v_unstored || o.id;
        v_answers := v_answers || case
          when o.id = any (p_unkept)
           and not exists (select from pgqueue.all_jobs where id = o.id) then 'already'
          else pgqueue.unsettled_v1(p_worker, o.id, v_lease) end;
      end loop;
    end if;
  end loop;

  for o in
    select * from jsonb_to_recordset(p_outcomes) as o(
      id bigint, lease_no int, action text, delay_ms double precision, run_at timestamptz, error jsonb)
     order by o.id
  loop
    select ctid, queue, attempts, lease_no, errors into j from pgqueue.jobs
     where id = o.id and lease_no = o.lease_no and locked_by = p_worker
       for update skip locked;
    if not found then
      v_unstored := v_unstored || o.id;
      v_answers := v_answers || pgqueue.unsettled_v1(p_worker, o.id, o.lease_no);
      continue;
    end if;
    case o.action
      when 'retry', 'release' then
        v_due := coalesce(o.run_at, v_now + o.delay_ms * interval '1 ms');
        update pgqueue.jobs set
          locked_by = null,
          attempts = attempts - case when o.action = 'release' then 1 else 0 end,
          run_at = coalesce(v_due, run_at),
          waits_for = case when v_due is not null then 'time' end,
          last_error = coalesce(o.error ->> 'message', last_error),
          errors = pgqueue.with_error(errors, o.error || jsonb_build_object('attempt', attempts,
            'lease_no', lease_no, 'worker', p_worker, 'at', v_now))
         where ctid = j.ctid;
        if v_due is null then v_released := v_released || j.queue; end if;
      when 'fail' then
        perform pgqueue.bury_v1(array[j.ctid], o.error, p_worker);
      when 'cancel' then
        update pgqueue.jobs set last_error = o.error ->> 'message' where ctid = j.ctid
          returning ctid into j.ctid;
        perform pgqueue.archive_v1(array[j.ctid], 'cancelled', '{}', '{}', p_overflow);
    end case;
  end loop;
  if cardinality(v_released) > 0 then
    perform pg_notify(pgqueue.doorbell(), r.queue) from (select distinct q from unnest(v_released) as q) as r(queue);
  end if;

  if v_worker is null or v_worker.dead_at is not null or v_worker.epoch <> p_epoch then
    return query select case when v_worker.dead_at is null and v_worker.epoch <> p_epoch then 'stale' else 'dead' end,
      null::bigint, null::int, null::text, null::text, null::jsonb, null::int, null::int, null::jsonb,
      null::timestamptz, null::double precision;
  else
    if jsonb_array_length(p_lanes) > 0 then
      select run_at into v_next from pgqueue.jobs where waits_for = 'time' order by run_at limit 1;
      if v_next <= v_now then
        update pgqueue.jobs set waits_for = null where ctid = any (array(
          select ctid from pgqueue.jobs where waits_for = 'time' and run_at <= v_now
           order by run_at limit 1000 for update skip locked));
        select run_at into v_next from pgqueue.jobs where waits_for = 'time' order by run_at limit 1;
      end if;
      for lane in
        select l.queue, l.kinds, l.want, l.slots, l.free
          from jsonb_to_recordset(p_lanes) as l(queue text, kinds text[], want int, slots text, free int)
          left join pgqueue.queues q on q.name = l.queue
         where q.paused_at is null
         order by l.slots, l.want
      loop
        if lane.slots is distinct from v_slots then
          v_slots := lane.slots;
          v_before := cardinality(v_picked);
        end if;
        -- The array is built once, whatever the plan, so no more rows are taken than asked.
        v_picked := v_picked || array(
          select ctid from pgqueue.jobs
           where queue = lane.queue and waits_for is null and locked_by is null
             and run_at <= v_now and kind = any (lane.kinds)
           order by priority, run_at, id
           limit least(lane.want, lane.free - (cardinality(v_picked) - v_before),
                       p_budget - cardinality(v_picked))
           for update skip locked);
      end loop;
    end if;
    return query select 'alive', null::bigint, null::int, null::text, null::text, null::jsonb, null::int,
      null::int, null::jsonb, null::timestamptz,
      case when v_next is not null then greatest(0, 1000 * extract(epoch from
        least(v_next, v_now + interval '1 day') - v_now))::double precision end;
  end if;

  return query select u.answer, u.id, null::int, null::text, null::text, null::jsonb, null::int,
    null::int, null::jsonb, null::timestamptz, null::double precision
    from unnest(v_unstored, v_answers) as u(id, answer);

  if cardinality(v_picked) > 0 then
    return query
      with claimed as (
        update pgqueue.jobs
           set locked_by = p_worker, attempts = attempts + 1, lease_no = lease_no + 1
         where ctid = any (v_picked) and attempts < max_attempts
        returning id, lease_no, queue, kind, payload, attempts, max_attempts, meta, created_at,
                  priority, run_at)
      select 'job', c.id, c.lease_no, c.queue, c.kind, c.payload, c.attempts, c.max_attempts, c.meta,
             c.created_at, null::double precision
        from claimed c order by c.priority, c.run_at, c.id;
    get diagnostics v_count = row_count;
    if v_count < cardinality(v_picked) then
      -- A budget that was spent by a crash, or lowered by hand, ends here without a run.
      v_rows := array(select ctid from pgqueue.jobs where ctid = any (v_picked) and attempts >= max_attempts);
      return query select 'spent', j.id, null::int, j.queue, j.kind, null::jsonb, null::int, null::int,
        null::jsonb, null::timestamptz, null::double precision
        from pgqueue.jobs j where j.ctid = any (v_rows);
      perform pgqueue.bury_v1(v_rows, jsonb_build_object('name', 'AttemptsSpent',
        'message', 'The job had no attempts left when it was due'), null);
    end if;
  end if;
end $fn$;
`;
