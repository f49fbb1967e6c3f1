/** No timer is longer than this: Node's end at 2^31-1 ms, and a long wait is better looked at again. */
export const MAX_TIMER_MS = 5 * 60_000;

/** A delay as a timer or a due time can take it: finite, at least 1 ms, at most `cap`. NaN becomes `cap`. */
export function boundedDelay(ms: number, cap: number): number {
  return Number.isNaN(ms) ? cap : Math.max(1, Math.min(ms, cap));
}

/** How long to wait after the n-th failure in a row (from 1) of something that must go on for ever. */
export function reconnectDelay(failures: number, random: () => number = Math.random): number {
  const full = Math.min(RECONNECT_CAP_MS, 100 * 2 ** Math.min(failures - 1, 10));
  return boundedDelay(full * (0.5 + random() / 2), RECONNECT_CAP_MS);
}

const RECONNECT_CAP_MS = 5_000;
