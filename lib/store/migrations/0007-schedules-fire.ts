/** How one process of all fires each slot of a schedule. */
export const schedulesFire = /* sql */ `
-- What is due, or else what will be due next: a list of schedules as a worker's plans need them, the instant to
-- plan for, and the milliseconds until then; null if there are none. handled = a live worker handles the kind.
create function pgqueue.due_schedules_v1(p_limit int)
returns table (due_ms double precision, due_in double precision, due jsonb)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_due timestamptz;
begin
  -- Looked at without the lock, changed by a later statement under it: between the two, code that is newer may
  -- have come.
  if exists (select from pgqueue.schedules_to_follow) then
    perform pg_advisory_xact_lock(pgqueue.schedules_key());
    perform pgqueue.follow_declarations_v1();
  end if;

  v_now := clock_timestamp();
  v_due := (
    select case when count(*) > 0 then greatest(min(coalesce(s.next_at, v_now)), v_now) end -- greatest skips null
      from pgqueue.schedules s
     where s.paused_at is null and (s.next_at is null or isfinite(s.next_at))
       and (not s.declared or exists (select from pgqueue.schedules_in_code c where c.name = s.name)));
  due_ms := 1000 * extract(epoch from v_due);
  due_in := 1000 * extract(epoch from v_due - v_now);
  due := (
    select coalesce(jsonb_agg(jsonb_build_object(
             'name', s.name, 'turn', s.turn, 'kind', s.kind, 'queue', s.queue, 'cron', s.cron,
             'every_ms', s.every_ms, 'time_zone', s.time_zone, 'catch_up', s.catch_up,
             'starts_ms', 1000 * extract(epoch from s.starts_at)::double precision,
             'ends_ms', 1000 * extract(epoch from s.ends_at)::double precision,
             'handled_ms', 1000 * extract(epoch from s.handled_to)::double precision,
             'handled', exists (select from pgqueue.workers w
                                 where w.dead_at is null and s.queue = any (w.queues) and s.kind = any (w.kinds)))
             order by s.next_at nulls first, s.name), '[]')
      from (select s.* from pgqueue.schedules s
             where s.paused_at is null and (s.next_at is null or s.next_at <= v_due)
               and (not s.declared or exists (select from pgqueue.schedules_in_code c where c.name = s.name))
             order by s.next_at nulls first, s.name limit p_limit) s);
  return next;
end $fn$;

-- Carries out plans: [{name, turn, slots, handled_to, next_at, again_ms, problem}], instants in milliseconds.
-- Each stands alone. handled_to null = as it was; next_at null = never; again_ms, if given, is how long to wait
-- in place of it. outcome:
--   planned   done: fired is the number of jobs made
--   passed    another process did it, somebody changed the schedule, or code does not say so any more: nothing
--             was done
--   busy      somebody has the row locked: look again
--   early     a slot lies ahead by the database's clock: look again
--   refused:  what the database said to the jobs; the schedule is tried again later
create function pgqueue.fire_schedules_v1(p_plans jsonb)
returns table (name text, outcome text, fired int)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  v_now timestamptz;
  p record;
  s pgqueue.schedules;
begin
  for p in
    select * from jsonb_to_recordset(p_plans) as p(
      name text, turn int, slots double precision[], handled_to double precision, next_at double precision,
      again_ms double precision, problem text)
     order by p.name
  loop
    name := p.name;
    fired := 0;
    perform from pgqueue.schedules where schedules.name = p.name for update skip locked;
    if not found then
      outcome := 'busy';
      return next;
      continue;
    end if;
    -- A later statement sees what whoever had the lock before us left.
    select * into s from pgqueue.schedules where schedules.name = p.name;
    v_now := clock_timestamp();
    if s.turn <> p.turn or s.paused_at is not null
       or (s.declared and not exists (select from pgqueue.schedules_in_code c where c.name = p.name))
       or exists (select from pgqueue.schedules_to_follow f where f.name = p.name)
    then
      outcome := 'passed';
    elsif exists (select from unnest(p.slots) as t(ms) where to_timestamp(ms / 1000) > v_now) then
      outcome := 'early';
    else
      begin
        if cardinality(p.slots) > 0 then
          with new as (
            insert into pgqueue.schedule_slots (schedule, slot, job_id)
              select p.name, o.slot, nextval('pgqueue.jobs_id_seq')
                from (select to_timestamp(ms / 1000) as slot from unnest(p.slots) as t(ms) order by 1) as o
               where o.slot > s.handled_to
              on conflict do nothing returning slot, job_id)
          insert into pgqueue.jobs (id, queue, kind, payload, priority, max_attempts, meta)
            overriding system value
            select new.job_id, s.queue, s.kind, s.payload, s.priority, s.max_attempts,
                   jsonb_build_object('schedule', jsonb_build_object('name', s.name, 'slot',
                     to_char(new.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
              from new;
          get diagnostics fired = row_count;
          -- The mark alone keeps older slots from firing; the rows tell people what became of each.
          delete from pgqueue.schedule_slots o
           where o.schedule = p.name and o.slot < v_now - interval '1 day' and o.slot < s.handled_to;
        end if;
        update pgqueue.schedules set
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
        update pgqueue.schedules
           set turn = turn + 1, next_at = v_now + interval '15 s', problem = left(sqlerrm, 1000)
         where schedules.name = p.name;
      end;
    end if;
    return next;
  end loop;
end $fn$;

-- select pgqueue.run_schedule('nightly');  -> the id of a job of it now, beside its slots; null if there is none
create function pgqueue.run_schedule(name text) returns bigint
language sql as $fn$
  insert into pgqueue.jobs (queue, kind, payload, priority, max_attempts, meta)
    select s.queue, s.kind, s.payload, s.priority, s.max_attempts,
           jsonb_build_object('schedule', jsonb_build_object('name', s.name, 'slot',
             to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
      from pgqueue.schedules s where s.name = run_schedule.name
    returning id
$fn$;
`;
