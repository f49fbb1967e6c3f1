// @ts-check
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Milliseconds on the clock that all processes of a machine share, so that one process can take the time of a
 * call and another that of the handler's first line.
 */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * @template T
 * @param {number} ms
 * @param {string} what for the error: 'the drain'
 * @param {Promise<T>} work
 * @returns {Promise<T>}
 */
export async function within(ms, what, work) {
  const timer = new AbortController();
  const late = delay(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`${what} took longer than ${Math.round(ms / 1000)} s`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    timer.abort();
  }
}

/**
 * Runs `next` over and over in `lanes` concurrent loops until it says that nothing is left.
 * @param {number} lanes
 * @param {(lane: number) => Promise<boolean>} next false = nothing is left
 */
export async function inLanes(lanes, next) {
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      while (await next(lane));
    }),
  );
}
