// @ts-check
// What PostgreSQL can do at most with the same rows, indexes and durability: the same inserts, claims and
// settles in batches, by SQL alone, on one connection, with nothing decided and nothing checked.
import pg from 'pg';
import { ask, askNumber } from '../support/side-connection.mjs';

/** @typedef {import('./system.js').System} System */

const BATCH = 1_000;

const COLUMNS = `
    queue text not null default 'default',
    kind text not null,
    payload jsonb not null default '{}',
    waits_for text,
    priority smallint not null default 0,
    run_at timestamptz not null default now(),
    attempts int not null default 0,
    max_attempts int not null default 5,
    lease_no int not null default 0,
    locked_by uuid,
    dedupe_key text,
    last_error text,
    errors jsonb,
    meta jsonb,
    created_at timestamptz not null default now()`;

// One commit a batch, as few as can be: the last batch is settled, and the next one claimed.
const SCHEMA = `
  create table jobs (id bigint generated always as identity primary key, ${COLUMNS})
    with (fillfactor = 45);
  create index jobs_ready on jobs (queue, priority, run_at, id) where waits_for is null;
  create table done_jobs (id bigint not null, ${COLUMNS},
                          finished_at timestamptz not null, result jsonb);
  create index done_jobs_id on done_jobs (id);
  create function turn(p_done bigint[], p_after timestamptz, p_after_id bigint)
    returns table (id bigint, payload jsonb, run_at timestamptz)
    language plpgsql set enable_seqscan = off set enable_bitmapscan = off
                     set plan_cache_mode = force_generic_plan as $$
  #variable_conflict use_column
  begin
    with gone as (delete from jobs where id = any (p_done) returning *)
    insert into done_jobs select gone.*, clock_timestamp(), null from gone;
    return query
      update jobs set locked_by = '00000000-0000-0000-0000-000000000001', attempts = attempts + 1,
                      lease_no = lease_no + 1
       where ctid = any (array(
         select ctid from jobs
          where queue = 'default' and waits_for is null and locked_by is null
            and (priority, run_at, id) > (0, p_after, p_after_id)
          order by priority, run_at, id limit ${BATCH} for update skip locked))
      returning id, payload, run_at;
  end $$;`;

/** @type {System[]} */
export default [
  {
    name: 'floor',
    store: 'postgres',
    describe: () => ({
      version: '-',
      settings: `SQL alone: inserts of up to 10,000 rows, claims and settles of ${BATCH}, one connection`,
    }),

    prepare: async (url) => void (await ask(url, SCHEMA)),

    produce: async (url) => {
      const client = new pg.Client(url);
      await client.connect();
      return {
        enqueue: async () => {
          throw new Error('only lists');
        },
        enqueueMany: async (kind, payloads) => {
          const texts = payloads.map((payload) => JSON.stringify(payload));
          for (let first = 0; first < texts.length; first += 10_000) {
            await client.query(
              'insert into jobs (kind, payload) select $1, p from unnest($2::jsonb[]) p',
              [kind, texts.slice(first, first + 10_000)],
            );
          }
        },
        close: () => client.end(),
      };
    },

    work: async (url, { handler }) => {
      const client = new pg.Client(url);
      await client.connect();
      const stopping = new AbortController();
      const loop = async () => {
        /** @type {string[]} */
        let done = [];
        let last = { run_at: '-infinity', id: '0' };
        while (!stopping.signal.aborted) {
          const { rows } = await client.query({
            name: 'turn',
            text: 'select id, payload, run_at::text from turn($1, $2, $3)',
            values: [done, last.run_at, last.id],
          });
          for (const { payload } of rows) await handler(payload);
          done = rows.map(({ id }) => id);
          last = rows.at(-1) ?? last;
          if (rows.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        }
      };
      const ended = loop();
      return {
        stop: async () => {
          stopping.abort();
          await ended;
          await client.end();
        },
      };
    },

    pending: (url) => askNumber(url, 'select count(*) from jobs'),
  },
];
