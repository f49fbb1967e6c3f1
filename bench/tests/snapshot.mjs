// @ts-check
// A report or a backup holds a snapshot while the queue works: dead rows can't be cleaned up until it ends.
import pg from 'pg';
import { drain } from '../support/drain.mjs';
import { GRAPHILE, OURS, PG_BOSS, TEXTBOOK } from './contestants.mjs';

/** @typedef {import('./test.js').Size & { n: number, limitMs: number }} SnapshotSize */

const TENTHS = 10;

/** @type {import('./test.js').BenchmarkTest<SnapshotSize>} */
export const snapshot = {
  name: 'snapshot',
  title: 'Drain under a held snapshot, 1 process',
  about:
    'A transaction in repeatable read stays open from before the clock starts to the end. A tenth more comes first, ' +
    'so that the first tenth is not that of a process that warms up; the last is the last one that was done in time.',
  sizes: {
    full: {
      n: 300_000,
      rounds: 3,
      limitMs: 60_000,
      watchdogMs: 300_000,
      systems: [OURS, PG_BOSS, GRAPHILE, TEXTBOOK],
    },
    quick: { n: 100_000, rounds: 1, limitMs: 10_000, watchdogMs: 90_000, systems: [OURS] },
  },
  ranking: { metric: 'lastToFirst', best: 'highest' },
  columns: [
    { metric: 'lastToFirst', title: 'last tenth / first', unit: 'ratio' },
    { metric: 'firstTenth', title: 'first tenth, jobs/s', unit: 'count' },
    { metric: 'lastTenth', title: 'last tenth, jobs/s', unit: 'count' },
    { metric: 'rate', title: 'jobs/s', unit: 'count' },
    { metric: 'done', title: 'done', unit: 'count' },
  ],
  measure: async (stage, { n, limitMs }) => {
    await stage.prepare(['noop']);
    const reader = new pg.Client(stage.url);
    reader.on('error', () => {});
    await reader.connect();
    try {
      const step = Math.ceil(n / TENTHS);
      const { metrics, marks } = await drain(stage, {
        n: n + step,
        limitMs,
        marks: step,
        beforeClock: async () => {
          await reader.query('begin isolation level repeatable read');
          await reader.query('select 1');
        },
      });
      const rates = marks
        .slice(1)
        .map((mark, index) => (1000 * step) / (mark - (marks[index] ?? NaN)));
      const tenths = Object.fromEntries(rates.map((rate, index) => [`tenth${index + 1}`, rate]));
      const firstTenth = rates[0] ?? NaN;
      const lastTenth = rates.length > 1 ? (rates.at(-1) ?? NaN) : NaN;
      return { ...metrics, ...tenths, firstTenth, lastTenth, lastToFirst: lastTenth / firstTenth };
    } finally {
      await reader.end();
    }
  },
};
