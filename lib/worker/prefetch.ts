/** Jobs claimed ahead by one exchange, at most: more of them don't make a job cheaper. */
const MOST_AT_ONCE = 500;
/** Jobs of one group of slots that wait in memory, at most: one exchange's to run, and the next one's. */
const MOST_WAITING = 2 * MOST_AT_ONCE;
/** A job that runs for at least this long, and this many times the average, has little to do with it. */
const LONG_MS = 100;
const LONG_FACTOR = 10;
/** How much of the average the latest job is. */
const WEIGHT = 1 / 8;

/**
 * How many jobs to hold beyond the free slots: as many as the slots can end in two round trips, one of them on
 * its way and one in memory. So jobs of a millisecond don't wait for the network, and jobs of ten seconds are
 * not hoarded. (By the rate at which jobs did end it starved: small claims lower that rate.)
 * @param duration of a job in milliseconds; undefined = not known yet
 * @param roundTrip of an exchange in milliseconds
 */
export function prefetchOf(slots: number, duration: number | undefined, roundTrip: number): number {
  if (duration === undefined || roundTrip === 0) return 0;
  return Math.min(MOST_WAITING, Math.floor((2 * slots * roundTrip) / duration));
}

/**
 * How many jobs to claim now.
 * @param free slots; negative if more has been claimed already
 * @param ahead what {@link prefetchOf} says
 */
export function wantOf(free: number, ahead: number): number {
  return Math.max(0, Math.min(free + ahead, Math.max(free, MOST_AT_ONCE)));
}

/**
 * How many of the running jobs are far longer than jobs have been: their slots end nothing meanwhile, and what
 * was claimed for them would wait.
 * @param since when they began, in order
 */
export function countLong(
  since: Iterable<number>,
  duration: number | undefined,
  now: number,
): number {
  const begunBefore = now - Math.max(LONG_MS, LONG_FACTOR * (duration ?? 0));
  let count = 0;
  for (const begun of since) {
    if (begun >= begunBefore) break;
    count += 1;
  }
  return count;
}

/** How long the latest jobs took, in milliseconds. */
export class JobDuration {
  private mean: number | undefined;

  add(duration: number): void {
    this.mean = this.mean === undefined ? duration : this.mean + (duration - this.mean) * WEIGHT;
  }

  get average(): number | undefined {
    return this.mean;
  }
}
