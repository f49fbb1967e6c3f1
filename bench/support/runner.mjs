// @ts-check
// The rounds of one test: A B C, B C A, … so that what drifts on the machine meets everybody.
import { now, within } from './clock.mjs';
import { show } from '../report/format.mjs';
import { median } from './statistics.mjs';

/** @typedef {import('../systems/index.mjs').Contestant} Contestant */
/** @typedef {import('../tests/test.js').BenchmarkTest<any>} BenchmarkTest */
/** @typedef {import('../tests/test.js').Metrics} Metrics */
/** @typedef {import('./servers.mjs').Servers} Servers */

/**
 * @typedef {object} SystemResult
 * @property {string} system
 * @property {Metrics[]} rounds those that came to an end
 * @property {string | undefined} error why there is none, or fewer
 */

/**
 * @typedef {object} TestResult
 * @property {BenchmarkTest} test
 * @property {import('../tests/test.js').Size} size
 * @property {SystemResult[]} systems
 * @property {string[]} absent named by the test, but not there
 */

const CLEAR_LIMIT_MS = 60_000;
/** A system that failed so often is not tried again. */
const MOST_FAILURES = 2;

/**
 * @param {BenchmarkTest} test
 * @param {Contestant[]} contestants
 * @param {Servers} servers
 * @param {import('../options.mjs').Options & { signal: AbortSignal }} options
 * @returns {Promise<TestResult>}
 */
export async function runTest(test, contestants, servers, options) {
  const size = scaled(test.sizes[options.mode], options);
  const wanted = new Set(options.systems ?? size.systems);
  /** @type {Contestant[]} */
  const present = [];
  for (const contestant of contestants) {
    if (!wanted.delete(contestant.system.name)) continue;
    if (await servers.has(contestant.system.store)) present.push(contestant);
    else wanted.add(contestant.system.name);
  }
  /** @type {SystemResult[]} */
  const results = present.map(({ system }) => ({
    system: system.name,
    rounds: [],
    error: undefined,
  }));
  const failures = new Map();

  console.log(`\n${test.title} (${test.name})`);
  for (let round = 0; round < size.rounds; round += 1) {
    for (let turn = 0; turn < present.length; turn += 1) {
      const place = (turn + round) % present.length;
      const contestant = /** @type {Contestant} */ (present[place]);
      const result = /** @type {SystemResult} */ (results[place]);
      if ((failures.get(place) ?? 0) >= MOST_FAILURES) continue;
      try {
        const started = now();
        const metrics = await measureOnce(test, contestant, servers, size);
        result.rounds.push(metrics);
        progress(test, round, result.system, metrics, (now() - started) / 1000);
      } catch (error) {
        if (options.signal.aborted) return { test, size, systems: results, absent: [...wanted] };
        failures.set(place, (failures.get(place) ?? 0) + 1);
        result.error = error instanceof Error ? error.message : String(error);
        console.log(`  round ${round + 1}  ${result.system.padEnd(30)} failed: ${result.error}`);
      }
    }
  }
  return { test, size, systems: results, absent: [...wanted] };
}

/**
 * @param {BenchmarkTest} test
 * @param {Contestant} contestant
 * @param {Servers} servers
 * @param {import('../tests/test.js').Size} size
 */
async function measureOnce(test, contestant, servers, size) {
  const stage = await servers.stage(contestant);
  try {
    return await within(size.watchdogMs, test.name, test.measure(stage, size));
  } finally {
    await within(CLEAR_LIMIT_MS, 'clearing up', stage.clear());
  }
}

/**
 * @param {import('../tests/test.js').Size} size
 * @param {import('../options.mjs').Options} options
 */
function scaled(size, { rounds = Math.max(1, size.rounds), scale }) {
  const numbers = Object.entries(size).map(([name, value]) =>
    name === 'n' || name === 'burden'
      ? [name, Math.max(1, Math.round(value * scale))]
      : [name, value],
  );
  return { ...Object.fromEntries(numbers), rounds };
}

/**
 * @param {BenchmarkTest} test
 * @param {number} round
 * @param {string} system
 * @param {Metrics} metrics
 * @param {number} seconds with everything around the measurement
 */
function progress(test, round, system, metrics, seconds) {
  const figures = test.columns.map(
    ({ metric, title, unit }) => `${title} ${show(metrics[metric], unit)}`,
  );
  const cpu = `server ${show(metrics.serverCpu, 'percent')} node ${show(metrics.nodeCpu, 'percent')}`;
  const took = `(${show(seconds, 'seconds')} s)`;
  console.log(`  round ${round + 1}  ${system.padEnd(30)} ${figures.join('  ')}  ${cpu}  ${took}`);
}

/**
 * The median of a metric over the rounds; undefined = never measured.
 * @param {TestResult | undefined} result
 * @param {string} system
 * @param {string} metric
 */
export function medianOf(result, system, metric) {
  const rounds = result?.systems.find((found) => found.system === system)?.rounds ?? [];
  const values = rounds.map((metrics) => metrics[metric] ?? NaN).filter((x) => !Number.isNaN(x));
  return values.length === 0 ? undefined : median(values);
}
