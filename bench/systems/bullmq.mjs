// @ts-check
// BullMQ on its two stores: PostgreSQL, and Redis with either way of writing to disk. It can't enqueue in a
// transaction of the caller.
import { createRequire } from 'node:module';
import { createPostgresBackend, Queue, runMigrations, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { askNumber } from '../support/side-connection.mjs';

/** @typedef {import('./system.js').System} System */
/** @typedef {import('./system.js').Profile} Profile */

/**
 * @typedef {object} Settings
 * @property {string} text for the report
 * @property {import('bullmq').DefaultJobOptions} [jobs]
 * @property {(profile: Profile) => number} [concurrency]
 * @property {number} [producerConnections] on PostgreSQL
 */

const { version } = createRequire(import.meta.url)('bullmq/package.json');

/** Jobs of an addBulk, as in its own benchmark; 5000 are as fast, 20,000 slower. */
const LIST = 1000;
const DAY_MS = 86_400_000;
// Each by an index of its own.
const PENDING = `
  select (select count(*) from bullmq.job where state = 'waiting')
       + (select count(*) from bullmq.job where state = 'active')`;

/** @type {Settings} */
const onPostgres = {
  text: 'concurrency 32, pools of 10 (workers) and 20 (producers), removeOnComplete, addBulk of 1000',
  jobs: { removeOnComplete: true },
  // Each job ends in a commit of its own. No-op jobs with a pool of 10: 0.68 to 0.95 k/s; with as many connections
  // as jobs: 0.55 to 0.73, and with 100 of both 0.33. 1 ms jobs: 32 ran 0.47 to 0.72, 100 ran 0.35 to 0.48.
  concurrency: () => 32,
  producerConnections: 20,
};

/** @type {Settings} */
const onRedis = {
  text: 'concurrency 32 (300 for 1 ms jobs), removeOnComplete, addBulk of 1000, ioredis',
  jobs: { removeOnComplete: true },
  // 1 ms jobs: 300 ran 5.8 to 8.6 k/s where 100 ran 5.1 to 8.0. No-op jobs: 32 and 100 are the same.
  concurrency: (profile) => (profile === 'wait' ? 300 : 32),
};

/** @type {Settings} */
const untouched = { text: 'defaults: concurrency 1, finished jobs are kept' };

/** @type {System[]} */
export default [
  contestant('bullmq-pg', 'postgres', onPostgres),
  contestant('bullmq-redis-everysec', 'redis-everysec', onRedis),
  contestant('bullmq-redis-always', 'redis-always', onRedis),
  contestant('bullmq-pg-defaults', 'postgres', untouched),
  contestant('bullmq-redis-everysec-defaults', 'redis-everysec', untouched),
];

/**
 * @param {string} name
 * @param {import('./system.js').Store} store
 * @param {Settings} settings
 * @returns {System}
 */
function contestant(name, store, { text, jobs, concurrency, producerConnections }) {
  const isPostgres = store === 'postgres';
  const backend = /** @type {any} */ (isPostgres ? createPostgresBackend : undefined);
  /** @type {(url: string, max?: number) => any} */
  const connect = (url, max) =>
    isPostgres ? { connectionString: url, ...(max !== undefined && { max }) } : { url };
  /** @type {(url: string, queue: string) => Queue} */
  const open = (url, queue) => {
    const connection = connect(url, producerConnections);
    return new Queue(queue, { connection, ...(jobs && { defaultJobOptions: jobs }) }, backend);
  };
  /** Those of the measurement that this process has prepared. @type {Queue[]} */
  let prepared = [];

  return {
    name,
    store,
    describe: () => ({ version, settings: text }),

    prepare: async (url, kinds) => {
      await (isPostgres ? preparePostgres(url) : emptyRedis(url));
      if (!isPostgres) prepared = queuesOf(kinds).map((queue) => open(url, queue));
    },

    produce: async (url) => {
      /** @type {Map<string, Queue>} */
      const queues = new Map();
      /** @param {string} kind */
      const queueOf = (kind) => {
        const queue = queues.get(queueFor(kind)) ?? open(url, queueFor(kind));
        queues.set(queueFor(kind), queue);
        return queue;
      };
      await queueOf('noop').waitUntilReady();
      return {
        enqueue: async (kind, payload) => void (await queueOf(kind).add(kind, payload)),
        enqueueMany: (kind, payloads) => addAll(queueOf(kind), kind, payloads),
        close: async () => void (await Promise.all([...queues.values()].map((q) => q.close()))),
      };
    },

    work: async (url, { kinds, profile, handler }) => {
      /** @param {import('bullmq').Job} job */
      const run = async ({ data }) => handler(data);
      const options = { connection: connect(url), concurrency: concurrency?.(profile) ?? 1 };
      const workers = queuesOf(kinds).map((queue) => new Worker(queue, run, options, backend));
      for (const worker of workers) {
        worker.on('error', (error) => console.error(error));
        await worker.waitUntilReady();
      }
      return { stop: async () => void (await Promise.all(workers.map((w) => w.close()))) };
    },

    pending: async (url) => {
      if (isPostgres) return askNumber(url, PENDING);
      const counts = prepared.map((queue) => queue.getJobCountByTypes('wait', 'active'));
      return (await Promise.all(counts)).reduce((total, count) => total + count, 0);
    },

    // The tuned ones keep no finished jobs, so there is no fillFinished.
    fillFuture: async (url, n) => {
      const queue = open(url, queueFor('noop'));
      for (let first = 0; first < n; first += LIST) {
        const length = Math.min(LIST, n - first);
        const payloads = Array.from({ length }, (_, index) => ({ n: first + index }));
        await addAll(queue, 'noop', payloads, { delay: DAY_MS + first });
      }
      await queue.close();
    },
  };
}

/** @param {string[]} kinds */
function queuesOf(kinds) {
  return [...new Set(kinds.map(queueFor))];
}

/**
 * A kind is a queue, for a worker takes whatever lies in its queue. Kinds that differ by their number only share
 * one, as jobs of different names do in BullMQ: 200 workers would want 400 connections of PostgreSQL.
 * @param {string} kind
 */
function queueFor(kind) {
  return kind.replace(/[_-]?\d+$/, '');
}

/**
 * @param {Queue} queue
 * @param {string} name
 * @param {object[]} payloads
 * @param {import('bullmq').BulkJobOptions} [opts]
 */
async function addAll(queue, name, payloads, opts) {
  for (let first = 0; first < payloads.length; first += LIST) {
    const list = payloads.slice(first, first + LIST);
    await queue.addBulk(list.map((data) => (opts ? { name, data, opts } : { name, data })));
  }
}

/** @param {string} url */
async function preparePostgres(url) {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('drop schema if exists bullmq cascade');
  await runMigrations(client);
  await client.end();
}

/** @param {string} url */
async function emptyRedis(url) {
  const redis = new Redis(url);
  await redis.flushall();
  await redis.quit();
}
