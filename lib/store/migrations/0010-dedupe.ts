/** What a dedupe key can do besides being unique: release at the start, replacing, and windows of time. */
export const dedupe = /* sql */ `
alter table pgqueue.jobs add column dedupe_until text check (dedupe_until = 'started');
comment on column pgqueue.jobs.dedupe_until is
  'When the job gives up its dedupe key: started = at its first claim; null = when it is settled.';

-- Keys of which no more than one job is taken in a time, even after it is settled.
create table pgqueue.dedupe_windows (
  kind       text not null,
  dedupe_key text not null,
  job_id     bigint,
  until      timestamptz not null default '-infinity',
  primary key (kind, dedupe_key)
);
create index dedupe_windows_until on pgqueue.dedupe_windows (until);
comment on table pgqueue.dedupe_windows is 'Of each key one job until the given time, by enqueues with a ttl.';
insert into pgqueue.maintenance (task) values ('dedupe');

-- Rings for one queue as the trigger of an insert does, after a row of it was changed.
create function pgqueue.ring_for(p_queue text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  perform pg_advisory_xact_lock_shared(pgqueue.enqueuing_key(p_queue));
  if not (case when pg_try_advisory_lock(pgqueue.waiting_key(p_queue))
            then pg_advisory_unlock(pgqueue.waiting_key(p_queue)) else false end) then
    perform pg_notify(pgqueue.doorbell(), p_queue);
  end if;
end $fn$;

-- Jobs of which at least one says more of its key than the key. Parallel arrays, one element a job; answers
-- are in their order. Ordinary jobs go through enqueue_many_v1, which knows nothing of this.
--   p_untils         'settled' | 'started': when the job gives up its key
--   p_on_duplicates  'skip' | 'replace' | 'throw': what to do if a pending job has the key. replace: that job
--                    gets the payload, meta, priority and due time of this one, unless it runs
--   p_ttls           milliseconds in which no other job of the key is taken, even after this one is settled
--   p_deadlines      as of enqueue_many_v1; those of jobs that a key kept out are not looked at
--   p_all_or_nothing 'throw' of one job takes back all of them
-- outcomes: inserted | duplicate | replaced, or refused for the first job that met its 'throw', and then
-- nothing was changed. id is the new job's or the holder's; null if a holder can't be seen.
--
-- The unique index is the only arbiter of the keys of pending jobs, and the row of a window that of its time:
-- each is waited for by the insert, and read by a later statement. Keys are taken in one order, the window of
-- a key before the key, so that two lists can't wait for each other.
create function pgqueue.enqueue_keyed_v1(
  p_queues text[], p_kinds text[], p_payloads jsonb, p_priorities smallint[],
  p_run_ats timestamptz[], p_delays double precision[], p_max_attempts int[],
  p_dedupe_keys text[], p_metas jsonb[], p_untils text[], p_on_duplicates text[], p_ttls double precision[],
  p_all_or_nothing boolean, p_lock_timeout int default null, p_deadlines jsonb default null
) returns table (ids bigint[], outcomes text[])
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  n         record;
  v_id      bigint;
  v_holder  bigint;
  v_queue   text;
  v_outcome text;
  v_given   bigint[] := array_fill(null::bigint, array[cardinality(p_kinds)]);
begin
  if p_lock_timeout is not null then
    perform set_config('lock_timeout', p_lock_timeout::text, true);
  end if;
  ids := array_fill(null::bigint, array[cardinality(p_kinds)]);
  outcomes := array_fill(null::text, array[cardinality(p_kinds)]);
  begin
    for n in
      select * from rows from (
          unnest(p_queues), unnest(p_kinds), jsonb_array_elements(p_payloads), unnest(p_priorities),
          unnest(p_run_ats), unnest(p_delays), unnest(p_max_attempts), unnest(p_dedupe_keys), unnest(p_metas),
          unnest(p_untils), unnest(p_on_duplicates), unnest(p_ttls)) with ordinality
        as n(queue, kind, payload, priority, run_at, delay, max_attempts, dedupe_key, meta, until,
             on_duplicate, ttl, ordinal)
       order by n.kind, n.dedupe_key, n.ordinal
    loop
      v_id := null;
      v_outcome := null;
      for v_round in 1..100 loop
        v_holder := null;
        if n.ttl is not null then
          insert into pgqueue.dedupe_windows (kind, dedupe_key) values (n.kind, n.dedupe_key)
            on conflict do nothing;
          perform from pgqueue.dedupe_windows w
            where w.kind = n.kind and w.dedupe_key = n.dedupe_key for update;
          continue when not found; -- the housekeeping was faster
          select w.job_id into v_holder from pgqueue.dedupe_windows w
           where w.kind = n.kind and w.dedupe_key = n.dedupe_key and w.until > clock_timestamp();
        end if;

        if v_holder is null then
          insert into pgqueue.jobs
            (queue, kind, payload, priority, run_at, max_attempts, dedupe_key, meta, dedupe_until)
            values (n.queue, n.kind, n.payload, coalesce(n.priority, 0),
                    coalesce(n.run_at, clock_timestamp() + n.delay * interval '1 ms', now()),
                    coalesce(n.max_attempts, 5), n.dedupe_key, n.meta,
                    case when n.until = 'started' then n.until end)
            on conflict (kind, dedupe_key) where dedupe_key is not null do nothing
            returning id into v_id;
          if v_id is not null then
            v_outcome := 'inserted';
            if n.ttl is not null then
              update pgqueue.dedupe_windows w
                 set job_id = v_id, until = clock_timestamp() + n.ttl * interval '1 ms'
               where w.kind = n.kind and w.dedupe_key = n.dedupe_key;
            end if;
            exit;
          end if;
        end if;

        if n.on_duplicate = 'replace' then
          -- One row, found and changed by what its newest version says: if a claim was faster, none is.
          -- What is due already keeps its place, or a key that is replaced all the time would never run.
          update pgqueue.jobs j set
            payload = n.payload, meta = n.meta, deadline = null, priority = coalesce(n.priority, 0),
            dedupe_until = case when n.until = 'started' then n.until end,
            run_at = coalesce(n.run_at, clock_timestamp() + n.delay * interval '1 ms',
                              least(j.run_at, now())),
            waits_for = case when j.waits_for is null or j.waits_for in ('time', 'handler')
              then case when coalesce(n.run_at, clock_timestamp() + n.delay * interval '1 ms')
                             > clock_timestamp() then 'time' end
              else j.waits_for end
           where j.kind = n.kind and j.dedupe_key = n.dedupe_key and j.locked_by is null
          returning j.id, j.queue into v_id, v_queue;
          if found then
            v_outcome := 'replaced';
            perform pgqueue.ring_for(v_queue);
            exit;
          end if;
        end if;

        select coalesce((select j.id from pgqueue.jobs j
                          where j.kind = n.kind and j.dedupe_key = n.dedupe_key), v_holder) into v_id;
        if v_id is not null then
          v_outcome := 'duplicate';
          exit;
        end if;
        -- The holder was settled, or has given up its key: the next round inserts.
      end loop;

      ids[n.ordinal] := v_id;
      outcomes[n.ordinal] := v_outcome;
      if v_outcome <> 'duplicate' then v_given[n.ordinal] := v_id; end if;
      if p_all_or_nothing and v_outcome = 'duplicate' and n.on_duplicate = 'throw' then
        raise exception using errcode = 'PGQ01';
      end if;
    end loop;
    if p_deadlines is not null then perform pgqueue.set_deadlines_v1(v_given, p_deadlines); end if;
  exception when sqlstate 'PGQ01' then
    -- What this block did is taken back, and the caller's transaction goes on.
    ids := array_fill(null::bigint, array[cardinality(p_kinds)]);
    outcomes := array_fill(null::text, array[cardinality(p_kinds)]);
    ids[n.ordinal] := v_id;
    outcomes[n.ordinal] := 'refused';
  end;
  return next;
end $fn$;
`;
