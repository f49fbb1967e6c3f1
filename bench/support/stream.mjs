// @ts-check
// A stream of single jobs at a rate, whether or not anybody keeps up with it: the next call waits for nothing.
import { setTimeout as delay } from 'node:timers/promises';
import { now } from './clock.mjs';

/**
 * @typedef {object} Stream
 * @property {string} kind
 * @property {number} rate calls per second
 * @property {number} n calls
 * @property {number} [first] n of the first payload. Default 0.
 */

/** How long calls that are still on their way are waited for. */
const PATIENCE_MS = 5_000;

/**
 * @param {import('../systems/system.js').Producer} producer
 * @param {Stream} stream
 * @returns {Promise<{ calls: Float64Array, returns: Float64Array, failed: number, endedAt: number, lateMs: number }>}
 *   by n: when each call began and when it returned (NaN = not yet), and the producer's own worst delay
 */
export async function stream(producer, { kind, rate, n, first = 0 }) {
  const calls = new Float64Array(n);
  const returns = new Float64Array(n).fill(NaN);
  const started = now();
  let failed = 0;
  let lateMs = 0;
  /** @type {Promise<void>[]} */
  const open = [];
  const call = async (/** @type {number} */ place) => {
    calls[place] = now();
    try {
      await producer.enqueue(kind, { n: first + place });
      returns[place] = now();
    } catch {
      failed += 1;
    }
  };
  for (let index = 0; index < n;) {
    const due = started + (1000 * index) / rate;
    const wait = due - now();
    if (wait > 0) {
      await delay(Math.max(1, Math.floor(wait)));
      continue;
    }
    lateMs = Math.max(lateMs, -wait);
    open.push(call(index));
    index += 1;
  }
  const endedAt = now();
  await Promise.race([Promise.all(open), delay(PATIENCE_MS, undefined, { ref: false })]);
  return { calls, returns, failed, endedAt, lateMs };
}
