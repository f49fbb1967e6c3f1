/** How jobs run: settle and claim in one round trip and one commit. */
export const exchange = /* sql */ `
-- One round trip of a worker. Settles what has ended, then claims for every lane with free slots.
--   p_done, p_leases  jobs that succeeded, and the lease number each was claimed under
--   p_keeps           parallel: false = the job leaves no history
--   p_results         parallel; null for a job without a result, or null = there is none
--   p_outcomes        all other ends: [{id, lease_no, action, delay_ms | run_at, error}]
--                     action: retry | release (the attempt is given back) | fail | cancel. Null = none.
--                     Each of them cancels a job for which that was asked
--   p_looks           where to claim, in order:
--                     [{lane, queue, of_kinds, not_kinds, want, slots, free, after_p, after_r, after_i, upto}]
--                     of_kinds | not_kinds; neither = all that the worker handles
--                     looks of the same lane get no more than want between them, and those of the same
--                     slots no more than free
--                     after_…: begin after this position (priority, run_at, id); upto: end with this priority.
--                     See "Where a claim begins" in docs/architecture.md
--   p_due_after       the same for scheduled jobs: those due before were promoted. Null = look from the start
--   p_overflow        history goes to the overflow table, since today has no partition
--   p_budget          no more jobs than this over all lanes; null = no bound
--   p_held            settled jobs that were under a limit: their slots are free. Null = none
--   p_freed           keys whose slots were freed before, while somebody else was counting them. Null = none
-- The first row answers for the worker: 'alive', or 'dead' or 'stale' if nothing was claimed because it was
-- declared dead or has reconnected since; due_in is the time to the next scheduled job in milliseconds, and
-- payload is {due, took, last: [{look, p, r, i}]}: the new p_due_after, the milliseconds that looking took,
-- and for each look (from 1) that found a job the position of its last; and if there are limits, limits:
-- {held, refused, parked, skipped}: claimed jobs under a limit, the next p_freed, how many jobs were parked, and
-- whether some were left that somebody else is counting.
-- Then come settlements that were not stored (see unsettled_v1), claimed jobs ('job') in order, and jobs that
-- were due with a spent budget ('spent') or after their deadline ('expired'): they are failed or cancelled now,
-- and there may be more behind them.
--
-- Every statement is pinned to its index: the same claim fell from 34 k to 11 k jobs/s when the planner
-- turned to a hash join at batches of 500. Sorting stays allowed: without it a settle of three rows walked
-- the whole primary key.
create function pgqueue.exchange_v1(
  p_worker uuid, p_epoch int,
  p_done bigint[], p_leases int[], p_keeps boolean[], p_results jsonb[],
  p_outcomes jsonb, p_looks jsonb, p_due_after timestamptz, p_overflow boolean, p_budget int default null,
  p_held bigint[] default null, p_freed text[] default null
) returns table (
  answer text, id bigint, lease_no int, queue text, kind text, payload jsonb, priority smallint,
  attempt int, max_attempts int, meta jsonb, created_at timestamptz, due_in double precision)
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
  perform pg_advisory_xact_lock_shared(pgqueue.worker_key(p_worker));
  v_now := clock_timestamp();
  select epoch, dead_at, kinds, paused_kinds, exists (select from pgqueue.limits) as limited into v_worker
    from pgqueue.workers where id = p_worker;

  -- Nothing is asked in vain: three statements less took an exchange of nothing from 48 to 35 µs.
  if p_done <> '{}' then
    for v_lease, v_keep in
      select distinct d.lease, d.keep from unnest(p_leases, p_keeps) as d(lease, keep)
    loop
      select array_agg(d.id), case when p_results is not null then array_agg(d.result) end
        into v_ids, v_results
        from unnest(p_done, p_leases, p_keeps, p_results) as d(id, lease, keep, result)
       where d.lease = v_lease and d.keep = v_keep;
      v_stored := pgqueue.settle_v1(p_worker, v_lease, v_ids, v_keep,
                                    case when v_results is not null then v_ids end, v_results, p_overflow);
      if coalesce(cardinality(v_stored), 0) < cardinality(v_ids) then
        for o in select i.id from unnest(v_ids) as i(id) where not i.id = any (coalesce(v_stored, '{}')) loop
          v_unstored := v_unstored || o.id;
          v_answers := v_answers || case
            when not v_keep and not exists (select from pgqueue.all_jobs where id = o.id) then 'already'
            else pgqueue.unsettled_v1(p_worker, o.id, v_lease) end;
        end loop;
      end if;
    end loop;
  end if;

  if p_outcomes is not null then
    select * into j from pgqueue.end_attempts_v1(p_worker, p_outcomes, p_overflow, v_now);
    v_unstored := v_unstored || j.unstored;
    v_answers := v_answers || j.answers;
    v_from := least(v_from, j.from_at);
    v_due_after := least(v_due_after, j.due_at);
    v_released := j.released;
  end if;
  if p_held is not null then v_keys := v_keys || pgqueue.release_v1(p_worker, p_held, v_unstored); end if;
  v_limited := v_keys is not null or coalesce(v_worker.limited, false);
  if v_limited then
    -- In the same transaction: nobody else counts a key while we hold it, and what we delete is gone with us.
    v_keys := v_keys || array(select key from pgqueue.rates where due_at <= v_now order by due_at limit 100);
    if v_keys <> '{}' then
      select refused, unparked, first_at into v_refused, v_unparked, v_first from pgqueue.unpark_v1(v_keys);
      v_from := least(v_from, v_first);
    end if;
  end if;
  if cardinality(v_released) > 0 then
    perform pg_notify(pgqueue.doorbell(), r.queue) from (select distinct q from unnest(v_released) as q) as r(queue);
  end if;

  if v_worker is null or v_worker.dead_at is not null or v_worker.epoch <> p_epoch then
    return query select case when v_worker.dead_at is null and v_worker.epoch <> p_epoch then 'stale' else 'dead' end,
      null::bigint, null::int, null::text, null::text, null::jsonb, null::smallint, null::int, null::int,
      null::jsonb, null::timestamptz, null::double precision;
  else
    v_looked := clock_timestamp();
    if jsonb_array_length(p_looks) > 0 then
      select run_at into v_next from pgqueue.jobs where waits_for = 'time' and run_at >= v_due_after
       order by run_at limit 1;
      if v_next <= v_now then
        with promoted as (
          update pgqueue.jobs set waits_for = null where ctid = any (array(
            select ctid from pgqueue.jobs
             where waits_for = 'time' and run_at >= v_due_after and run_at <= v_now
             order by run_at limit 1000 for update skip locked))
          returning run_at)
        select min(run_at), max(run_at) into v_first, v_last from promoted;
        v_from := least(v_from, v_first);
        v_due_after := greatest(v_due_after, v_last);
        select run_at into v_next from pgqueue.jobs where waits_for = 'time' and run_at >= v_due_after
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
          left join pgqueue.queues q on q.name = l.queue
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
          select ctid from pgqueue.jobs
           where queue = look.queue and waits_for is null and locked_by is null and run_at <= v_now
             and (priority, run_at, id) > (look.after_p, least(look.after_r, v_from), look.after_i)
             and priority <= look.upto and jsonb_exists(v_kinds, kind)
           order by priority, run_at, id
           limit v_count
           for update skip locked);
        continue when v_taken = '{}';
        v_place := (select jsonb_build_object('look', look.ordinal, 'p', priority, 'r', run_at, 'i', id::text)
                      from pgqueue.jobs where ctid = v_taken[cardinality(v_taken)]);
        if v_limited then
          select * into v_admitted from pgqueue.admit_v1(p_worker, look.queue, v_taken, v_picked);
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
        v_next := least(v_next, (select min(due_at) from pgqueue.rates where due_at is not null));
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
        update pgqueue.jobs
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
      v_rows := array(select ctid from pgqueue.jobs where ctid = any (v_picked)
                         and ((deadline > v_now) is false or cancel_requested_at is not null));
      if v_rows <> '{}' then
        return query select 'expired', j.id, null::int, j.queue, j.kind, null::jsonb, null::smallint, null::int,
          null::int, null::jsonb, null::timestamptz, null::double precision
          from pgqueue.jobs j where j.ctid = any (v_rows);
        perform pgqueue.cancel_rows_v1(v_rows, null);
      end if;
      -- A budget that was spent by a crash, or lowered by hand, ends here without a run.
      v_rows := array(select ctid from pgqueue.jobs where ctid = any (v_picked) and attempts >= max_attempts);
      return query select 'spent', j.id, null::int, j.queue, j.kind, null::jsonb, null::smallint, null::int, null::int,
        null::jsonb, null::timestamptz, null::double precision
        from pgqueue.jobs j where j.ctid = any (v_rows);
      perform pgqueue.bury_v1(v_rows, jsonb_build_object('name', 'AttemptsSpent',
        'message', 'The job had no attempts left when it was due'), null);
    end if;
  end if;

  -- What was un-parked and not claimed here is somebody else's.
  if v_unparked <> '{}' then perform pgqueue.ring_unclaimed_v1(v_unparked); end if;
end $fn$;
`;
