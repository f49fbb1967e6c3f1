// @ts-check
// pg-boss: claims in large batches with LISTEN/NOTIFY, and what it does when nobody sets anything.
import { createRequire } from 'node:module';
import { PgBoss } from 'pg-boss';
import { ask, askNumber } from '../support/side-connection.mjs';

/** @typedef {import('./system.js').System} System */
/** @typedef {import('./system.js').WorkOptions} WorkOptions */

const { version } = createRequire(import.meta.url)('pg-boss/package.json');

/** Enqueues that a test has in flight. */
const PRODUCER_CONNECTIONS = 20;
// Drains: 2 loops of 2000 ran 16 to 19 k/s; of 1000, 15 to 17; one loop of 1000, 10 to 13; more or larger: no more.
const BATCH = 2000;
const LOOPS = 2;

/** @type {System[]} */
export default [
  contestant('pg-boss', {
    settings:
      `batchSize ${BATCH}, burstWhenBatchFull, localConcurrency ${LOOPS} in drains (1 for latency, steady streams, ` +
      'and many queues), useListenNotify and notify, polling 0.5 s in drains (else 30 s next to NOTIFY); ' +
      'jobs of a batch side by side',
    boss: { useListenNotify: true },
    queue: { notify: true },
    worker: ({ kinds, profile }) => {
      const drains = profile === 'noop' || profile === 'wait';
      return {
        batchSize: BATCH,
        burstWhenBatchFull: true,
        // A notification wakes all loops of a queue, so a second one makes single jobs slower.
        localConcurrency: drains && kinds.length === 1 ? LOOPS : 1,
        pollingIntervalSeconds: 0.5,
        ...(drains && { notifyPollingIntervalSeconds: 0.5 }),
      };
    },
  }),
  contestant('pg-boss-defaults', {
    settings: 'defaults: one job every 2 seconds',
    boss: {},
    queue: {},
    worker: () => ({}),
  }),
];

/**
 * @param {string} name
 * @param {object} options
 * @param {string} options.settings
 * @param {Partial<import('pg-boss').ConstructorOptions>} options.boss of a process that works
 * @param {Omit<import('pg-boss').Queue, 'name'>} options.queue
 * @param {(work: WorkOptions) => import('pg-boss').WorkOptions} options.worker
 * @returns {System}
 */
function contestant(name, { settings, boss: bossOptions, queue, worker }) {
  return {
    name,
    store: 'postgres',
    describe: () => ({ version, settings }),

    prepare: async (url, kinds) => {
      await ask(url, 'drop schema if exists pgboss cascade');
      const boss = await start({ connectionString: url, supervise: false, schedule: false });
      for (const kind of kinds) await boss.createQueue(kind, queue);
      await boss.stop();
    },

    produce: async (url) => {
      // Maintenance is the workers'.
      const boss = await start({
        connectionString: url,
        max: PRODUCER_CONNECTIONS,
        supervise: false,
        schedule: false,
      });
      return {
        enqueue: async (kind, payload) => void (await boss.send(kind, payload)),
        enqueueMany: async (kind, payloads) =>
          void (await boss.insert(
            kind,
            payloads.map((data) => ({ data })),
          )),
        enqueueIn: async (client, kind, payload) => {
          const db = {
            executeSql: (/** @type {string} */ text, /** @type {unknown[]} */ values) =>
              client.query(text, values),
          };
          await boss.send(kind, payload, { db });
        },
        close: () => boss.stop(),
      };
    },

    work: async (url, work) => {
      const boss = await start({ connectionString: url, ...bossOptions });
      for (const kind of work.kinds) {
        await boss.work(kind, worker(work), async (jobs) => {
          await Promise.all(jobs.map(async ({ data }) => work.handler(data)));
        });
      }
      return { stop: () => boss.stop() };
    },

    // By queue and state, as its index for monitoring has them.
    pending: (url) =>
      askNumber(
        url,
        `select coalesce(sum(jobs.n), 0)
           from pgboss.queue q, lateral (
                select count(*) as n from pgboss.job j
                 where j.name = q.name and j.state in ('created', 'retry', 'active') and not j.blocked
                   and j.start_after <= now()) jobs`,
      ),

    // Both as its documentation of the table allows.
    fillFinished: async (url, n) => {
      await ask(
        url,
        `insert into pgboss.job (name, data, policy, state, started_on, completed_on)
         select q.name, jsonb_build_object('n', i), q.policy, 'completed', now(), now()
           from pgboss.queue q, generate_series(1, $1::int) i where q.name = 'noop'`,
        [n],
      );
    },

    fillFuture: async (url, n) => {
      await ask(
        url,
        `insert into pgboss.job (name, data, policy, start_after, keep_until)
         select q.name, jsonb_build_object('n', i), q.policy, due, due + interval '14 days'
           from pgboss.queue q, generate_series(1, $1::int) i,
                lateral (select now() + interval '1 day' + i * interval '1 s' as due) d
          where q.name = 'noop'`,
        [n],
      );
    },
  };
}

/** @param {import('pg-boss').ConstructorOptions} options */
async function start(options) {
  const boss = new PgBoss(options);
  boss.on('error', (error) => console.error(error));
  await boss.start();
  return boss;
}
