/** What people and handlers say of jobs under way: cancel, deadlines, completion in a transaction, progress. */
export const control = /* sql */ `
-- Both are null for most jobs, where they take no room, and stand in no index. Whatever ends or begins an attempt
-- has the row at hand and finds them there: no statement more for jobs without.
alter table pgqueue.jobs
  add column cancel_requested_at timestamptz,
  add column deadline timestamptz;
comment on column pgqueue.jobs.cancel_requested_at is
  'Somebody asked for the end of the job while it ran: it is not run again, however its attempt ends.';
comment on column pgqueue.jobs.deadline is 'No attempt begins after this: the job is cancelled instead.';

-- Where workers hear that a job of theirs is to be cancelled, as id:lease_no. Not the doorbell's channel: a queue
-- may have any name.
create function pgqueue.cancel_channel() returns text
language sql stable as $fn$
  select pgqueue.doorbell() || '_cancel'
$fn$;

-- Moves jobs that the caller has locked to the history as cancelled, whether or not today has its partition.
create function pgqueue.cancel_rows_v1(p_rows tid[], p_reason text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $fn$
declare
  v_rows tid[];
begin
  with told as (
    update pgqueue.jobs set
      locked_by = null,
      last_error = coalesce(p_reason, case when deadline <= clock_timestamp()
        then 'The deadline passed before the job could begin' end, last_error)
     where ctid = any (p_rows)
    returning ctid)
  select array_agg(ctid) into v_rows from told;
  begin
    perform pgqueue.archive_v1(v_rows, 'cancelled', false);
  exception when check_violation then
    perform pgqueue.archive_v1(v_rows, 'cancelled', true);
  end;
end $fn$;

-- When to look at a job with a deadline again, so that one behind a long backlog is cancelled soon after it. A
-- table apart, since an index of jobs would be opened by every insert and claim. A plain INSERT with a deadline
-- has no row here: its job is cancelled when a claim meets it.
create table pgqueue.deadlines (
  job_id  bigint primary key,
  look_at timestamptz not null
);
create index deadlines_look_at on pgqueue.deadlines (look_at);
insert into pgqueue.maintenance (task) values ('deadlines'), ('progress');

-- p_ids are the new jobs of an enqueue; those that a key kept out are not there.
create function pgqueue.set_deadlines_v1(p_ids bigint[], p_deadlines jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $fn$
begin
  with given as (
    update pgqueue.jobs j
       set deadline = coalesce(d.at, clock_timestamp() + d.ms * interval '1 ms')
      from jsonb_to_recordset(p_deadlines) as d(n int, at timestamptz, ms double precision)
     where j.id = p_ids[d.n]
    returning j.id, j.deadline)
  insert into pgqueue.deadlines (job_id, look_at)
    select id, least(deadline, clock_timestamp() + interval '1 hour') from given
    on conflict (job_id) do update set look_at = excluded.look_at; -- of a job that was replaced
end $fn$;

-- Cancels jobs that still wait after their deadline. Answers how many rows of deadlines it went through.
-- Each is looked at every hour, so that none stays for long when its job has ended before its deadline.
create function pgqueue.expire_v1(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $fn$
declare
  v_now  timestamptz := clock_timestamp();
  v_ids  bigint[] := array(select job_id from pgqueue.deadlines where look_at <= v_now
                            order by look_at limit p_limit for update skip locked);
  v_rows tid[];
begin
  v_rows := array(select ctid from pgqueue.jobs
                   where id = any (v_ids) and locked_by is null and deadline <= v_now
                   order by id for update skip locked);
  if v_rows <> '{}' then perform pgqueue.cancel_rows_v1(v_rows, null); end if;
  -- Those that are left run, or are locked by somebody, or their deadline lies ahead.
  update pgqueue.deadlines d
     set look_at = case when j.deadline > v_now then least(j.deadline, v_now + interval '1 hour')
                        else v_now + interval '1 minute' end
    from pgqueue.jobs j where d.job_id = any (v_ids) and j.id = d.job_id and j.deadline is not null;
  delete from pgqueue.deadlines where job_id = any (v_ids) and look_at <= v_now;
  return cardinality(v_ids);
end $fn$;

-- Ends a job inside the transaction of its handler, as the last statement before the commit. What becomes of the
-- job and of the handler's writes is then one decision, and the job's row makes it: whoever locks it first.
--   done       the job ends if and only if the transaction commits
--   cancelled  somebody asked for that before
--   lost       the job is not this worker's any more
create function pgqueue.complete_v1(
  p_worker uuid, p_id bigint, p_lease int, p_keep boolean, p_result text
) returns text
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '10s' as $fn$
declare
  v_result jsonb;
  j record;
begin
  -- As in an exchange: after the lock, so that whoever declares death has either ended or waits for us.
  perform pg_advisory_xact_lock_shared(pgqueue.worker_key(p_worker));
  if not exists (select from pgqueue.workers where id = p_worker and dead_at is null) then return 'lost'; end if;
  -- The same for the row: a rescue or a cancel that has it is waited for, and seen by the next statement.
  perform from pgqueue.jobs where id = p_id for update;
  select locked_by, lease_no, cancel_requested_at into j from pgqueue.jobs where id = p_id;
  if j.locked_by is distinct from p_worker or j.lease_no <> p_lease then return 'lost'; end if;
  if j.cancel_requested_at is not null then return 'cancelled'; end if;

  -- A job that succeeded must not run again because of its result.
  begin
    v_result := p_result::jsonb;
  exception when data_exception or program_limit_exceeded then
    v_result := '{"notStored": "the database refused it"}';
  end;
  begin
    perform pgqueue.settle_v1(p_worker, p_lease, array[p_id], p_keep,
      case when v_result is not null then array[p_id] end, array[v_result], false);
  exception when check_violation then
    perform pgqueue.settle_v1(p_worker, p_lease, array[p_id], p_keep,
      case when v_result is not null then array[p_id] end, array[v_result], true);
  end;
  return 'done';
end $fn$;

-- How far attempts have come. A table apart, so that the job's own row is not written again and again. A row is
-- shown while its attempt runs; its worker removes it when the attempt has ended, else the housekeeping does.
create table pgqueue.job_progress (
  job_id     bigint primary key,
  lease_no   int not null,
  value      jsonb not null,
  written_at timestamptz not null default now()
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- Removes the progress of attempts that have ended, and writes that of attempts that run. The lists of each are
-- parallel.
create function pgqueue.progress_v1(
  p_ended bigint[], p_ended_leases int[], p_ids bigint[], p_leases int[], p_values jsonb[]
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $fn$
begin
  delete from pgqueue.job_progress p using unnest(p_ended, p_ended_leases) as e(id, lease)
   where p.job_id = e.id and p.lease_no = e.lease;
  insert into pgqueue.job_progress (job_id, lease_no, value)
    select j.id, j.lease_no, n.value
      from unnest(p_ids, p_leases, p_values) as n(id, lease, value)
      join pgqueue.jobs j on j.id = n.id and j.lease_no = n.lease and j.locked_by is not null
     order by j.id
    on conflict (job_id) do update
      set lease_no = excluded.lease_no, value = excluded.value, written_at = clock_timestamp()
      where job_progress.lease_no <= excluded.lease_no;
end $fn$;
`;
