// @ts-check
import {
  EVERYSEC,
  FLOOR,
  GRAPHILE,
  MORE_SLOTS,
  NO_HISTORY,
  OURS,
  PEER_DEFAULTS,
  PG_BOSS,
  POSTGRES_PEERS,
  REDIS,
  TEXTBOOK,
} from './contestants.mjs';
import { drain } from '../support/drain.mjs';

/** @typedef {import('./test.js').Size & { n: number, limitMs: number }} DrainSize */
/** @typedef {import('./test.js').BenchmarkTest<DrainSize>} DrainTest */

const HOW =
  'Processes hold the first jobs back until all of them are there; the clock ends when every handler has run ' +
  'and nothing is pending. What is not done in time is left out of the rate.';
const TUNED = [OURS, NO_HISTORY, ...POSTGRES_PEERS, ...REDIS];

const DEFAULTS = [OURS, ...PEER_DEFAULTS];

/** @type {DrainTest[]} */
export const drains = [
  drainTest({
    name: 'drain',
    title: 'Drain of no-op jobs, 1 process',
    processes: 1,
    profile: 'noop',
    full: { n: 50_000, rounds: 5, limitMs: 20_000, systems: [...TUNED, TEXTBOOK, FLOOR] },
    quick: {
      n: 40_000,
      rounds: 1,
      limitMs: 3_000,
      systems: [OURS, NO_HISTORY, GRAPHILE, PG_BOSS, EVERYSEC, FLOOR],
    },
  }),
  drainTest({
    name: 'drain-4',
    title: 'Drain of no-op jobs, 4 processes',
    processes: 4,
    profile: 'noop',
    // Four times as many: what each process has fetched ahead at the gate would be a third of 50,000.
    full: { n: 200_000, rounds: 3, limitMs: 20_000, systems: [...TUNED, TEXTBOOK] },
    quick: {
      n: 80_000,
      rounds: 1,
      limitMs: 4_000,
      systems: [OURS, GRAPHILE, PG_BOSS],
    },
  }),
  drainTest({
    name: 'drain-1ms',
    title: 'Drain of 1 ms jobs, 1 process',
    processes: 1,
    profile: 'wait',
    jobMs: 1,
    full: { n: 50_000, rounds: 3, limitMs: 20_000, systems: [...TUNED, MORE_SLOTS, TEXTBOOK] },
    quick: {
      n: 30_000,
      rounds: 1,
      limitMs: 3_000,
      systems: [OURS, MORE_SLOTS, GRAPHILE, PG_BOSS],
    },
  }),
  drainTest({
    name: 'drain-1ms-defaults',
    title: 'Drain of 1 ms jobs, 1 process, defaults against defaults',
    processes: 1,
    profile: 'wait',
    jobMs: 1,
    full: {
      n: 50_000,
      rounds: 3,
      limitMs: 20_000,
      systems: DEFAULTS,
    },
    quick: { n: 30_000, rounds: 1, limitMs: 2_000, systems: DEFAULTS },
  }),
];

/**
 * @typedef {{ name: string, title: string, processes: number, profile: import('../systems/system.js').Profile,
 *   jobMs?: number, full: Shape, quick: Shape }} Wanted
 * @typedef {{ n: number, rounds: number, limitMs: number, systems: readonly string[] }} Shape
 */

/**
 * @param {Wanted} wanted
 * @returns {DrainTest}
 */
function drainTest({ name, title, processes, profile, jobMs, full, quick }) {
  return {
    name,
    title,
    about: HOW,
    sizes: { full: { ...full, watchdogMs: 240_000 }, quick: { ...quick, watchdogMs: 60_000 } },
    ranking: { metric: 'rate', best: 'highest' },
    columns: [
      { metric: 'rate', title: 'jobs/s', unit: 'count' },
      { metric: 'done', title: 'done', unit: 'count' },
    ],
    measure: async (stage, { n, limitMs }) => {
      await stage.prepare(['noop'], processes);
      const { metrics } = await drain(stage, { n, processes, profile, jobMs, limitMs });
      return metrics;
    },
  };
}
