/** Jobs claimed ahead by one exchange, at most: more of them don't make a job cheaper. */
const MOST_AT_ONCE = 500;
/** Jobs of one group of slots that wait in memory, at most: one exchange's to run, and the next one's. */
const MOST_WAITING = 2 * MOST_AT_ONCE;
/** What the latest exchanges count: each one halves what was before it. */
const MEMORY = 0.5;

/**
 * How many jobs to hold beyond the free slots: as many as end in three round trips. One of them is on its way,
 * one in memory, and the third is what the rate falls short by while claims are too small. So jobs of a millisecond don't wait for the network, and jobs of ten seconds are not hoarded.
 * @param rate jobs that end in a millisecond
 * @param roundTrip of an exchange, in milliseconds
 */
export function prefetchOf(rate: number, roundTrip: number): number {
  return Math.min(MOST_WAITING, Math.floor(3 * rate * roundTrip));
}

/**
 * How many jobs to claim now.
 * @param free slots; negative if more has been claimed already
 * @param ahead what {@link prefetchOf} says
 */
export function wantOf(free: number, ahead: number): number {
  return Math.max(0, Math.min(free + ahead, Math.max(free, MOST_AT_ONCE)));
}

/** Measures how fast jobs end. */
export class EndRate {
  private ended = 0;
  private elapsed = 0;
  private endedNow = 0;
  private since: number | undefined;

  /** A job has ended. */
  count(): void {
    this.endedNow += 1;
  }

  /** Jobs a millisecond; asked about once an exchange. `now` in milliseconds. */
  measure(now: number): number {
    this.ended = this.ended * MEMORY + this.endedNow;
    this.elapsed = this.elapsed * MEMORY + (now - (this.since ?? now));
    this.since = now;
    this.endedNow = 0;
    return this.elapsed > 0 ? this.ended / this.elapsed : 0;
  }
}
