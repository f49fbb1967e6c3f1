import type { Report } from './reports.js';

/** The most that ran at once. */
export function mostAtOnce(reports: readonly Report[]): number {
  const steps = reports.toSorted((a, b) => a.at - b.at);
  let running = 0;
  let most = 0;
  for (const { what } of steps) {
    running += what === 'began' ? 1 : -1;
    most = Math.max(most, running);
  }
  return most;
}

/** The most instants within any stretch of so many milliseconds. */
export function mostWithin(instants: readonly number[], ms: number): number {
  const sorted = instants.toSorted((a, b) => a - b);
  return Math.max(
    ...sorted.map((from, i) => sorted.slice(i).filter((at) => at < from + ms).length),
  );
}

/** How many a second, from the first to the last. */
export function rateOf(instants: readonly number[]): number {
  const duration = Math.max(...instants) - Math.min(...instants);
  return (1_000 * (instants.length - 1)) / duration;
}
