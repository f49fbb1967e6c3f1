/**
 * Moves the jobs that a condition names to the history, by one statement that answers their ids. A success that
 * comes after a request to cancel ends as cancelled: the first committed transition wins.
 */
function archiveInto(table: string, condition: string): string {
  return /* sql */ `
      with gone as (
        delete from pgqueue.jobs where ${condition} returning *
      ), kept as (
        insert into pgqueue.${table}
        select g.id, g.queue, g.kind, g.payload,
               case when g.cancel_requested_at is null then p_status else 'cancelled' end,
               g.priority, g.run_at, g.attempts, g.max_attempts, g.lease_no, g.locked_by, g.dedupe_key,
               g.last_error, g.errors, g.meta, g.created_at, clock_timestamp(), r.result
          from gone g left join unnest(p_result_ids, p_results) as r(id, result) on r.id = g.id
        returning id)
      select array_agg(id) into v_stored from kept;`;
}

const IS_OURS = 'id = any (v_ids) and lease_no = p_lease and locked_by = p_worker';

/** How attempts end: what an exchange does with the jobs that it has locked. */
export const settle = /* sql */ `
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

-- Moves jobs that the caller has locked to the history.
-- Pinned here too, as all below: a session keeps plans, and one that had cancelled or rescued jobs while the
-- table was small read all of it in every exchange from then on.
create function pgqueue.archive_v1(
  p_rows tid[], p_status text, p_overflow boolean
) returns void
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $fn$
declare
  p_result_ids bigint[];
  p_results    jsonb[];
  v_stored     bigint[];
begin
  if p_overflow then
    ${archiveInto('done_jobs_overflow', 'ctid = any (p_rows)')}
  else
    ${archiveInto('done_jobs', 'ctid = any (p_rows)')}
  end if;
end $fn$;

-- Ends jobs that succeeded under one lease number, as far as they are this worker's, and answers which those
-- were. p_result_ids and p_results are parallel, and null where no job has a result, which spares most batches
-- a join.
-- Hardly ever has anybody else locked such a row, so it is deleted without being locked before: that was one
-- more pass over the rows, and 50 of 686 bytes of WAL a job. If somebody has, those rows are passed over by a second try.
create function pgqueue.settle_v1(
  p_worker uuid, p_lease int, p_ids bigint[], p_keep boolean, p_result_ids bigint[], p_results jsonb[],
  p_overflow boolean
) returns bigint[]
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
set lock_timeout = '5ms'
as $fn$
declare
  p_status constant text := 'done';
  v_ids    bigint[] := p_ids;
  v_stored bigint[];
begin
  loop
    begin
      if not p_keep then
        with gone as (
          delete from pgqueue.jobs where ${IS_OURS} and cancel_requested_at is null returning id)
        select array_agg(id) into v_stored from gone;
        -- Whoever asked for the end of a job finds it in the history.
        if coalesce(cardinality(v_stored), 0) < cardinality(v_ids) then
          v_ids := array(select id from pgqueue.jobs where ${IS_OURS} and cancel_requested_at is not null);
          if v_ids <> '{}' then
            v_stored := v_stored || pgqueue.settle_v1(p_worker, p_lease, v_ids, true, null, null, p_overflow);
          end if;
        end if;
      elsif p_overflow then
        ${archiveInto('done_jobs_overflow', IS_OURS)}
      else
        ${archiveInto('done_jobs', IS_OURS)}
      end if;
      return v_stored;
    exception when lock_not_available then
      perform set_config('lock_timeout', '0', true);
      v_ids := array(select id from pgqueue.jobs where ${IS_OURS} order by id for update skip locked);
    end;
  end loop;
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

-- Ends attempts in all other ways; p_outcomes as an exchange has them.
--   unstored, answers  settlements that were not stored, see unsettled_v1
--   released           queues of jobs that are due again at once; from_at, the first of their places in the order
--   due_at             when the first of the others is due
create function pgqueue.end_attempts_v1(
  p_worker uuid, p_outcomes jsonb, p_overflow boolean, p_now timestamptz,
  out unstored bigint[], out answers text[], out released text[], out from_at timestamptz, out due_at timestamptz
) language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $fn$
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
    select ctid, queue, run_at, attempts, lease_no, errors, cancel_requested_at into j from pgqueue.jobs
     where id = o.id and lease_no = o.lease_no and locked_by = p_worker
       for update skip locked;
    if not found then
      unstored := unstored || o.id;
      answers := answers || pgqueue.unsettled_v1(p_worker, o.id, o.lease_no);
      continue;
    end if;
    if j.cancel_requested_at is not null then o.action := 'cancel'; end if;
    case o.action
      when 'retry', 'release' then
        v_due := coalesce(o.run_at, p_now + o.delay_ms * interval '1 ms');
        update pgqueue.jobs set
          locked_by = null,
          attempts = attempts - case when o.action = 'release' then 1 else 0 end,
          run_at = coalesce(v_due, run_at),
          waits_for = case when v_due is not null then 'time' end,
          last_error = coalesce(o.error ->> 'message', last_error),
          errors = pgqueue.with_error(errors, o.error || jsonb_build_object('attempt', attempts,
            'lease_no', lease_no, 'worker', p_worker, 'at', p_now))
         where ctid = j.ctid;
        if v_due is null then
          released := released || j.queue;
          from_at := least(from_at, j.run_at);
        else
          due_at := least(due_at, v_due);
        end if;
      when 'fail' then
        perform pgqueue.bury_v1(array[j.ctid], o.error, p_worker);
      when 'cancel' then
        update pgqueue.jobs set last_error = coalesce(o.error ->> 'message', last_error) where ctid = j.ctid
          returning ctid into j.ctid;
        perform pgqueue.archive_v1(array[j.ctid], 'cancelled', p_overflow);
    end case;
  end loop;
end $fn$;
`;
