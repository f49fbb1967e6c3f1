// @ts-check
// A stream of jobs from one process to another, and how long each took from the call to its handler.
import { setTimeout as delay } from 'node:timers/promises';
import { now } from './clock.mjs';
import { percentiles } from './statistics.mjs';
import { perJob } from './drain.mjs';

/** @typedef {import('./stage.mjs').Stage} Stage */

const WARM_UP_SECONDS = 1;
/** How long jobs that are behind are waited for; what comes later counts as never. */
const PATIENCE_MS = 5_000;
const ANSWER_LIMIT_MS = 20_000;
const POLL_MS = 50;
/** A system that keeps up has at most so many seconds' worth of jobs waiting at the end. */
const BACKLOG_SECONDS = 0.25;

/**
 * @param {Stage} stage
 * @param {{ rate: number, n: number, profile: import('../systems/system.js').Profile }} flow
 */
export async function flow(stage, { rate, n, profile }) {
  await stage.prepare(['noop'], 2);
  const worker = await stage.worker({ kinds: ['noop'], profile, stamps: true });
  const producer = await stage.producer();
  const first = Math.ceil(rate * WARM_UP_SECONDS);
  await stream(stage, producer, { kind: 'noop', rate, n: first });
  await stage.settle();

  const stop = await stage.measure();
  const sent = await stream(stage, producer, { kind: 'noop', rate, n, first });
  const { meters } = await stop();
  const starts = await startsOf(stage, worker, first, n);

  const fromCall = starts.map((start, index) => since(start, sent.calls[index]));
  const fromCommit = starts.map((start, index) => since(start, sent.returns[index]));
  const backlog = starts.filter((start) => !(start <= sent.endedAt)).length;
  return {
    ...percentiles(fromCall),
    ...percentiles(fromCommit, 'Commit'),
    backlog,
    keepsUp: backlog <= rate * BACKLOG_SECONDS && sent.failed === 0 ? 1 : 0,
    producerLate: sent.lateMs,
    ...perJob(meters, n),
  };
}

/**
 * @param {Stage} stage
 * @param {import('./actor-process.mjs').ActorProcess} producer
 * @param {import('./stream.mjs').Stream} options
 * @returns {ReturnType<typeof import('./stream.mjs').stream>}
 */
function stream(stage, producer, options) {
  const limit = (1000 * options.n) / options.rate + 60_000;
  return stage.guard('the stream', limit, producer.call('stream', options));
}

/**
 * When each job of the measurement began, by its number; NaN = it did not.
 * @param {Stage} stage
 * @param {import('./actor-process.mjs').ActorProcess} worker
 * @param {number} first
 * @param {number} n
 */
async function startsOf(stage, worker, first, n) {
  for (const until = now() + PATIENCE_MS; ; await delay(POLL_MS)) {
    const { count } = await stage.guard('the count', ANSWER_LIMIT_MS, worker.call('handled'));
    if (count >= first + n || now() > until) break;
  }
  /** @type {{ stamps: Float64Array }} */
  const { stamps } = await stage.guard('the times', ANSWER_LIMIT_MS, worker.call('stamps'));
  return Array.from({ length: n }, (_, index) => stamps[first + index] ?? NaN);
}

/**
 * @param {number} start
 * @param {number | undefined} before
 */
function since(start, before = NaN) {
  return Number.isNaN(start) ? Infinity : start - before;
}
