// @ts-check
// Drains with something in the tables that a queue collects over the months, each next to a drain without it.
import { drain } from '../support/drain.mjs';
import { EVERYSEC, GRAPHILE, OURS, PG_BOSS, TEXTBOOK } from './contestants.mjs';

/** @typedef {import('../support/stage.mjs').Stage} Stage */
/** @typedef {import('./test.js').Size & { n: number, burden: number, limitMs: number }} BurdenSize */
/** @typedef {import('./test.js').BenchmarkTest<BurdenSize>} BurdenTest */

const MANY = [OURS, PG_BOSS, GRAPHILE, EVERYSEC];

/** @type {BurdenTest[]} */
export const burdens = [
  burdenTest({
    name: 'finished',
    what: 'finished jobs in the history',
    burden: { full: 1_000_000, quick: 200_000 },
    systems: [OURS, PG_BOSS, TEXTBOOK],
    lay: (stage, burden) => stage.prompt('fillFinished', burden),
  }),
  burdenTest({
    name: 'future',
    what: 'jobs that are due in the future',
    burden: { full: 500_000, quick: 100_000 },
    systems: MANY,
    lay: (stage, burden) => stage.prompt('fillFuture', burden),
  }),
  burdenTest({
    name: 'kinds',
    what: 'many kinds, each with its share of the jobs',
    burden: { full: 200, quick: 200 },
    systems: MANY,
    kinds: (burden) => Array.from({ length: burden }, (_, index) => `kind_${index + 1}`),
  }),
  burdenTest({
    name: 'running',
    isTarget: false,
    what: 'jobs that run elsewhere all the while',
    burden: { full: 10_000, quick: 10_000 },
    systems: [OURS],
    lay: async (stage, burden) => {
      await stage.worker({ kinds: ['elsewhere'], profile: 'noop', forever: true });
      await stage.prompt('fillRunning', burden);
    },
  }),
  burdenTest({
    name: 'saturated',
    isTarget: false,
    what: 'jobs that wait for a slot of one saturated key',
    burden: { full: 100_000, quick: 100_000 },
    systems: [OURS],
    lay: async (stage, burden) => {
      await stage.worker({ kinds: ['elsewhere'], profile: 'noop' });
      await stage.prompt('fillSaturated', burden);
    },
  }),
  burdenTest({
    name: 'unhandled',
    isTarget: false,
    what: 'jobs of a kind that nobody handles, enqueued before the others',
    burden: { full: 100_000, quick: 50_000 },
    systems: MANY,
    lay: (stage, burden) => stage.preload(['nobody'], burden),
  }),
];

/**
 * @param {{ name: string, what: string, burden: Record<import('./test.js').Mode, number>, systems: readonly string[],
 *   isTarget?: boolean, kinds?: (burden: number) => string[], lay?: (stage: Stage, burden: number) => Promise<void> }} wanted
 * @returns {BurdenTest}
 */
function burdenTest({ name, what, burden, systems, isTarget = true, kinds = () => ['noop'], lay }) {
  return {
    name,
    title: `Drain with ${what}`,
    about:
      'Each measurement is a pair: a drain in an empty place, then the same with the burden (so many of them, below).',
    sizes: {
      full: {
        n: 50_000,
        burden: burden.full,
        rounds: 3,
        limitMs: 30_000,
        watchdogMs: 400_000,
        systems,
      },
      quick: {
        n: 20_000,
        burden: burden.quick,
        rounds: isTarget ? 1 : 0,
        limitMs: 5_000,
        watchdogMs: 90_000,
        systems: [OURS],
      },
    },
    ranking: { metric: 'rate', best: 'highest' },
    columns: [
      { metric: 'rate', title: 'jobs/s', unit: 'count' },
      { metric: 'cleanRate', title: 'without it', unit: 'count' },
      { metric: 'ofClean', title: 'of that', unit: 'ratio' },
    ],
    measure: async (stage, { n, burden, limitMs }) => {
      const clean = await stage.beside(async (empty) => {
        await empty.prepare(['noop', 'nobody', 'elsewhere']);
        return drain(empty, { n, limitMs });
      });
      const names = kinds(burden);
      await stage.prepare([...names, 'nobody', 'elsewhere']);
      await lay?.(stage, burden);
      const { metrics } = await drain(stage, { n, kinds: names, limitMs });
      const cleanRate = clean.metrics.rate;
      return { ...metrics, cleanRate, ofClean: metrics.rate / cleanRate };
    },
  };
}
