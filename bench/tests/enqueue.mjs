// @ts-check
// How many calls a second one process can make that are durable when they resolve.
import { perJob } from '../support/drain.mjs';
import {
  ALWAYS,
  EVERYSEC,
  FLOOR,
  GRAPHILE,
  NO_NOTIFY,
  OURS,
  PG_BOSS,
  POSTGRES_PEERS,
  REDIS,
  TEXTBOOK,
} from './contestants.mjs';

/** @typedef {import('./test.js').Size & { n: number, limitMs: number }} EnqueueSize */
/** @typedef {import('./test.js').BenchmarkTest<EnqueueSize>} EnqueueTest */
/** @typedef {import('../support/stage.mjs').Stage} Stage */

const ALL = [OURS, ...POSTGRES_PEERS, ...REDIS, TEXTBOOK];
const WARM_UP = { kind: 'noop', n: 2_000, limitMs: 500 };

/** @type {EnqueueTest[]} */
export const enqueues = [
  enqueueTest({
    name: 'enqueue-1',
    title: 'Enqueue, one call after the other',
    about: 'Each call is awaited, and durable as far as the store goes, before the next one.',
    full: { n: 5_000, rounds: 3, limitMs: 5_000, systems: ALL },
    quick: { n: 1_000, rounds: 0, limitMs: 2_000, systems: [OURS, GRAPHILE] },
    measure: (stage, size) => single(stage, { ...size, inFlight: 1 }),
  }),
  enqueueTest({
    name: 'enqueue-20',
    title: 'Enqueue, 20 calls in flight',
    about: 'Twenty loops in one process; each awaits its call before the next one.',
    full: { n: 50_000, rounds: 3, limitMs: 5_000, systems: ALL },
    quick: {
      n: 20_000,
      rounds: 1,
      limitMs: 1_500,
      systems: [OURS, GRAPHILE, EVERYSEC, ALWAYS],
    },
    measure: (stage, size) => single(stage, { ...size, inFlight: 20 }),
  }),
  enqueueTest({
    name: 'enqueue-tx',
    title: 'Enqueue inside 20 concurrent user transactions, a worker listening',
    about:
      'Each transaction is begin, an insert into a table of the application, the enqueue and commit, on a connection ' +
      'of its own; a worker process runs the jobs meanwhile. `pg-queue-no-notify` is the same without any NOTIFY.',
    full: {
      n: 20_000,
      rounds: 3,
      limitMs: 5_000,
      systems: [OURS, NO_NOTIFY, PG_BOSS, GRAPHILE, 'bullmq-pg', TEXTBOOK],
    },
    quick: {
      n: 10_000,
      rounds: 1,
      limitMs: 2_000,
      systems: [OURS, NO_NOTIFY, GRAPHILE, TEXTBOOK],
    },
    measure: inTransactions,
  }),
  enqueueTest({
    name: 'bulk',
    title: 'Enqueue of many jobs at once',
    about: 'One call with all payloads; a system may split it as is best for it.',
    full: { n: 50_000, rounds: 5, limitMs: 60_000, systems: [...ALL, FLOOR] },
    quick: { n: 50_000, rounds: 1, limitMs: 30_000, systems: [OURS, GRAPHILE, FLOOR] },
    measure: inBulk,
  }),
];

/**
 * @param {Stage} stage
 * @param {{ n: number, inFlight: number, limitMs: number }} load
 */
async function single(stage, { n, inFlight, limitMs }) {
  await stage.prepare(['noop']);
  const producer = await stage.producer();
  await producer.call('enqueueEach', { ...WARM_UP, inFlight });
  await stage.settle();
  const stop = await stage.measure();
  const load = { kind: 'noop', n, inFlight, limitMs };
  const done = await stage.guard('enqueueing', limitMs * 3, producer.call('enqueueEach', load));
  return rated(done, await stop());
}

/**
 * @param {Stage} stage
 * @param {EnqueueSize} size
 */
async function inTransactions(stage, { n, limitMs }) {
  await stage.prepare(['noop'], 2);
  const producer = await stage.producer();
  await stage.worker({ kinds: ['noop'], profile: 'steady' });
  await producer.call('enqueueInTransactions', { ...WARM_UP, inFlight: 20 });
  await stage.settle();
  const stop = await stage.measure();
  const load = { kind: 'noop', n, inFlight: 20, limitMs };
  const calls = producer.call('enqueueInTransactions', load);
  return rated(await stage.guard('enqueueing', limitMs * 3, calls), await stop());
}

/**
 * @param {Stage} stage
 * @param {EnqueueSize} size
 */
async function inBulk(stage, { n, limitMs }) {
  await stage.prepare(['noop']);
  const producer = await stage.producer();
  await producer.call('enqueueMany', ['noop'], WARM_UP.n, WARM_UP.n);
  await stage.settle();
  const stop = await stage.measure();
  const calls = producer.call('enqueueMany', ['noop'], n, n);
  return rated(await stage.guard('enqueueing', limitMs, calls), await stop());
}

/**
 * By the producer's own clock, which knows nothing of the messages between it and us.
 * @param {{ n: number, ms: number }} done
 * @param {{ meters: import('../support/stage.mjs').Meters }} measured
 */
function rated({ n, ms }, { meters }) {
  return { rate: (1000 * n) / ms, ...perJob(meters, n) };
}

/**
 * @typedef {{ n: number, rounds: number, limitMs: number, systems: readonly string[] }} Shape
 * @param {Pick<EnqueueTest, 'name' | 'title' | 'about' | 'measure'> & { full: Shape, quick: Shape }} wanted
 * @returns {EnqueueTest}
 */
function enqueueTest({ full, quick, ...test }) {
  return {
    ...test,
    sizes: { full: { ...full, watchdogMs: 180_000 }, quick: { ...quick, watchdogMs: 60_000 } },
    ranking: { metric: 'rate', best: 'highest' },
    columns: [{ metric: 'rate', title: 'jobs/s', unit: 'count' }],
  };
}
