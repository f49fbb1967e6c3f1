// @ts-check
import { flow } from '../support/flow.mjs';
import { EVERYSEC, GRAPHILE, OURS, POSTGRES_PEERS, REDIS, TEXTBOOK } from './contestants.mjs';

/** @typedef {import('./test.js').Size & { rate: number, n: number }} FlowSize */
/** @typedef {import('./test.js').BenchmarkTest<FlowSize>} FlowTest */
/** @typedef {import('./test.js').Column} Column */

const ALL = [OURS, ...POSTGRES_PEERS, ...REDIS, TEXTBOOK];
const STREAMED = [OURS, ...POSTGRES_PEERS, ...REDIS];

/** @type {Column[]} */
const LATENCIES = [
  { metric: 'p50', title: 'p50 ms', unit: 'ms' },
  { metric: 'p95', title: 'p95 ms', unit: 'ms' },
  { metric: 'p99', title: 'p99 ms', unit: 'ms' },
];
/** @type {Column[]} */
const FROM_COMMIT = [
  { metric: 'p50Commit', title: 'p50 from commit', unit: 'ms' },
  { metric: 'p99Commit', title: 'p99 from commit', unit: 'ms' },
];
/** @type {Column[]} */
const KEEPING_UP = [
  { metric: 'backlog', title: 'behind at the end', unit: 'count' },
  { metric: 'keepsUp', title: 'keeps up', unit: 'yes' },
];

/** @type {FlowTest[]} */
export const flows = [
  {
    name: 'latency',
    title: 'Latency on an idle system, 20 jobs/s',
    about:
      'From before the enqueue call, and from its return, to the first line of the handler in another process.',
    sizes: {
      full: { rounds: 3, rate: 20, n: 600, watchdogMs: 120_000, systems: ALL },
      quick: {
        rounds: 1,
        rate: 20,
        n: 120,
        watchdogMs: 60_000,
        systems: [OURS, GRAPHILE, EVERYSEC],
      },
    },
    ranking: { metric: 'p50', best: 'lowest' },
    columns: [...LATENCIES, ...FROM_COMMIT],
    measure: (stage, { rate, n }) => flow(stage, { rate, n, profile: 'latency' }),
  },
  steady({ name: 'steady-1000', rate: 1_000, quickSystems: [OURS, EVERYSEC] }),
  steady({ name: 'steady-5000', rate: 5_000, quickSystems: [OURS, EVERYSEC] }),
];

/**
 * @param {{ name: string, rate: number, quickSystems: readonly string[] }} wanted
 * @returns {FlowTest}
 */
function steady({ name, rate, quickSystems }) {
  return {
    name,
    title: `Steady ${rate.toLocaleString('en')} jobs/s`,
    about:
      'Single calls at this rate whether or not anybody keeps up, from before the call to the first line of the ' +
      'handler; jobs that have not begun five seconds after the last call count as never.',
    sizes: {
      full: { rounds: 3, rate, n: rate * 20, watchdogMs: 150_000, systems: STREAMED },
      quick: { rounds: 1, rate, n: rate * 5, watchdogMs: 60_000, systems: quickSystems },
    },
    ranking: { metric: 'p99', best: 'lowest' },
    columns: [...LATENCIES, ...KEEPING_UP],
    measure: (stage, { rate, n }) => flow(stage, { rate, n, profile: 'steady' }),
  };
}
