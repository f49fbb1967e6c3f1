// @ts-check
// The queue that everybody has written once: a table with a state, loops that each claim one row with SKIP
// LOCKED and mark it done, and a trigger that notifies.
import pg from 'pg';
import { ask, askNumber } from '../support/side-connection.mjs';

/** @typedef {import('./system.js').System} System */

const LOOPS = 16;
const POLL_MS = 1_000;

const SCHEMA = `
  create table jobs (
    id bigint generated always as identity primary key,
    kind text not null,
    payload jsonb not null,
    state text not null default 'queued',
    run_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    finished_at timestamptz
  );
  create index jobs_queued on jobs (run_at, id) where state = 'queued';
  create index jobs_running on jobs (id) where state = 'running';
  create function notify_jobs() returns trigger language plpgsql as $$
    begin perform pg_notify('jobs', ''); return null; end $$;
  create trigger jobs_notify after insert on jobs for each row execute function notify_jobs();`;

const CLAIM = `
  update jobs set state = 'running' where id = (
    select id from jobs
     where state = 'queued' and run_at <= now() and kind = any ($1)
     order by run_at, id limit 1 for update skip locked)
  returning id, payload`;

/** @type {System[]} */
export default [
  {
    name: 'textbook',
    store: 'postgres',
    describe: () => ({
      version: '-',
      settings: `${LOOPS} loops, each one claim, one update; LISTEN from a row trigger, polling ${POLL_MS} ms`,
    }),

    prepare: async (url) => void (await ask(url, SCHEMA)),

    produce: async (url) => {
      const pool = new pg.Pool({ connectionString: url, max: 20 });
      await Promise.all(Array.from({ length: 20 }, () => pool.query('select 1')));
      const insert = 'insert into jobs (kind, payload) values ($1, $2)';
      return {
        enqueue: async (kind, payload) => void (await pool.query(insert, [kind, payload])),
        enqueueMany: async (kind, payloads) =>
          void (await pool.query(
            'insert into jobs (kind, payload) select $1, p from jsonb_array_elements($2::jsonb) p',
            [kind, JSON.stringify(payloads)],
          )),
        enqueueIn: async (client, kind, payload) =>
          void (await client.query(insert, [kind, payload])),
        close: () => pool.end(),
      };
    },

    work: async (url, { kinds, handler }) => {
      const pool = new pg.Pool({ connectionString: url, max: LOOPS });
      const bell = await listen(url);
      const stopping = new AbortController();
      const loop = async () => {
        while (!stopping.signal.aborted) {
          const { rows } = await pool.query(CLAIM, [kinds]);
          if (rows.length === 0) {
            await bell.wait();
            continue;
          }
          await handler(rows[0].payload);
          await pool.query(`update jobs set state = 'done', finished_at = now() where id = $1`, [
            rows[0].id,
          ]);
        }
      };
      const loops = Promise.all(Array.from({ length: LOOPS }, loop));
      return {
        stop: async () => {
          stopping.abort();
          await bell.close();
          await loops;
          await pool.end();
        },
      };
    },

    pending: (url) =>
      askNumber(
        url,
        `select (select count(*) from jobs where state = 'queued' and run_at <= now())
              + (select count(*) from jobs where state = 'running')`,
      ),

    fillFinished: async (url, n) => {
      await ask(
        url,
        `insert into jobs (kind, payload, state, finished_at)
         select 'noop', jsonb_build_object('n', i), 'done', now() from generate_series(1, $1::int) i`,
        [n],
      );
    },
  },
];

/** @param {string} url */
async function listen(url) {
  const client = new pg.Client(url);
  /** @type {Set<() => void>} */
  const waiting = new Set();
  const ring = () => {
    for (const wake of waiting) wake();
    waiting.clear();
  };
  client.on('notification', ring);
  await client.connect();
  await client.query('listen jobs');
  return {
    /** @returns {Promise<void>} */
    wait: () =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, POLL_MS);
        waiting.add(() => {
          clearTimeout(timer);
          resolve();
        });
      }),
    close: async () => {
      ring();
      await client.end();
    },
  };
}
