/** What people do to jobs, from psql or through QueueService. */
export const byHand = /* sql */ `
-- Failed jobs back to work, ids kept, attempts reset. outcome: retried | conflict | not_failed; holder is the
-- pending job that has the dedupe key, and then nothing changes.
create function pgqueue.retry_many_v1(p_ids bigint[])
returns table (id bigint, outcome text, holder bigint)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  f pgqueue.failed_jobs;
begin
  -- In the order in which enqueue takes keys, so that the two can't wait for each other.
  for id in
    select i from (select distinct i from unnest(p_ids) as i) as ids
      left join pgqueue.failed_jobs on failed_jobs.id = i
     order by failed_jobs.kind, failed_jobs.dedupe_key, i
  loop
    holder := null;
    select * into f from pgqueue.failed_jobs where failed_jobs.id = retry_many_v1.id for update;
    if not found then
      outcome := 'not_failed';
      return next;
      continue;
    end if;
    insert into pgqueue.jobs (id, queue, kind, payload, priority, max_attempts, lease_no, dedupe_key,
                              last_error, errors, meta, created_at)
      overriding system value
      values (f.id, f.queue, f.kind, f.payload, f.priority, f.max_attempts, f.lease_no, f.dedupe_key,
              f.last_error, f.errors, f.meta, f.created_at)
      on conflict do nothing;
    if found then
      delete from pgqueue.failed_jobs where failed_jobs.id = f.id;
      outcome := 'retried';
    else
      select jobs.id into holder from pgqueue.jobs
       where jobs.kind = f.kind and jobs.dedupe_key = f.dedupe_key;
      outcome := 'conflict';
    end if;
    return next;
  end loop;
end $fn$;

-- select pgqueue.retry(42);  -> retried | conflict | not_failed
create function pgqueue.retry(id bigint) returns text
language sql as $fn$
  select outcome from pgqueue.retry_many_v1(array[id])
$fn$;

-- select pgqueue.cancel(42);  -> cancelled | requested | finished | not_found
-- A job that waits ends as cancelled. Of one that runs the wish is kept in its row, where whatever comes next
-- (its settlement, a rescue) finds it and cancels, and its worker is told.
create function pgqueue.cancel(id bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  j record;
begin
  -- The lock first, then a statement that sees what the lock waited for.
  perform from pgqueue.jobs where jobs.id = cancel.id for update;
  select ctid, locked_by, lease_no into j from pgqueue.jobs where jobs.id = cancel.id;
  if not found then
    return case when exists (select from pgqueue.all_jobs where all_jobs.id = cancel.id)
      then 'finished' else 'not_found' end;
  end if;
  if j.locked_by is null then
    perform pgqueue.cancel_rows_v1(array[j.ctid], null);
    return 'cancelled';
  end if;
  update pgqueue.jobs set cancel_requested_at = clock_timestamp()
   where ctid = j.ctid and cancel_requested_at is null;
  -- Told at every call: the first notification may have been lost.
  perform pg_notify(pgqueue.cancel_channel(), cancel.id || ':' || j.lease_no);
  return 'requested';
end $fn$;
`;
