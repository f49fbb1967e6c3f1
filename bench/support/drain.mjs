// @ts-check
// Jobs lie there; how fast are they run and settled? Workers hold the first ones back until all processes are
// there, and the end is when nothing is pending, so what is counted is claims, runs and durable settles.
import { setTimeout as delay } from 'node:timers/promises';
import { now } from './clock.mjs';

/** @typedef {import('./stage.mjs').Stage} Stage */

const GATE_LIMIT_MS = 30_000;
/** Where one process takes all jobs there are, the others will never have a first one. */
const LATECOMERS_MS = 3_000;
const POLL_MS = 5;

/**
 * @typedef {object} Drain
 * @property {number} n jobs
 * @property {string[]} [kinds]
 * @property {number} [processes]
 * @property {import('../systems/system.js').Profile} [profile]
 * @property {number} [jobMs]
 * @property {number} [marks]
 * @property {number} limitMs what was done by then is what counts
 * @property {() => Promise<void>} [beforeClock]
 */

/**
 * On a stage that is prepared.
 * @param {Stage} stage
 * @param {Drain} drain
 */
export async function drain(
  stage,
  { n, kinds = ['noop'], processes = 1, profile = 'noop', jobMs, marks, limitMs, beforeClock },
) {
  const others = await stage.prompt('pending');
  await stage.preload(kinds, n);
  await stage.settle();

  const work = { kinds, profile, gated: true, jobMs, marks };
  const workers = await Promise.all(Array.from({ length: processes }, () => stage.worker(work)));
  await stage.guard('the first job', GATE_LIMIT_MS, assembled(workers));
  await beforeClock?.();

  const counts = new Map(workers.map((worker) => [worker, 0]));
  const allHandled = new Promise((resolve) => {
    for (const worker of workers) {
      worker.on('handled', ({ count }) => {
        counts.set(worker, count);
        if (sum(counts.values()) >= n) resolve(true);
      });
    }
  });
  const stop = await stage.measure();
  for (const worker of workers) void worker.call('openGate').catch(() => {});
  const until = now() + limitMs;
  await Promise.race([allHandled, delay(limitMs, undefined, { ref: false }), stage.trouble]);
  while (now() < until && sum(counts.values()) >= n && (await stage.prompt('pending')) > others) {
    await delay(POLL_MS);
  }
  const { startedAt, ms, meters } = await stop();
  const reports = await Promise.all(workers.map((worker) => worker.call('handled')));
  const done = Math.min(n, sum(counts.values()));
  return {
    metrics: { rate: (1000 * done) / ms, done, seconds: ms / 1000, ...perJob(meters, done) },
    startedAt,
    marks: /** @type {number[]} */ (reports[0].marks),
  };
}

/**
 * Every process holds a job, or one does and the others seem to find none.
 * @param {import('./actor-process.mjs').ActorProcess[]} workers
 */
async function assembled(workers) {
  const waiting = workers.map((worker) => worker.once('waiting'));
  await Promise.any(waiting);
  await Promise.race([Promise.all(waiting), delay(LATECOMERS_MS, undefined, { ref: false })]);
}

/**
 * @param {import('./stage.mjs').Meters} meters
 * @param {number} jobs
 */
export function perJob({ wal, ...meters }, jobs) {
  return { ...meters, walPerJob: wal / jobs };
}

/** @param {Iterable<number>} values */
function sum(values) {
  return [...values].reduce((total, value) => total + value, 0);
}
