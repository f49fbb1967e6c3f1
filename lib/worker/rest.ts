/** A worker that has work all the time for this long lets go of the doorbell. */
const SATURATED_AFTER_MS = 20;
/** More rings than this in {@link WINDOW_MS} cost the enqueuers more than polling costs the worker. */
const BUSY_RINGS = 30;
const WINDOW_MS = 100;
/** Fewer jobs than this in a window, and the worker waits for rings again. */
const QUIET_JOBS = 5;
/** How often a busy worker looks, and how far that is stretched while it finds nothing. */
const BUSY_POLL_MS = { first: 2, most: 32 };

/** What a worker should do about the doorbell after a turn, and when to look again if nothing rings. */
export interface Advice {
  /** `wait`: ask to be rung for. `let go`: don't. */
  readonly doorbell: 'wait' | 'let go' | 'as it is';
  /** Milliseconds; undefined = the usual poll. */
  readonly pollIn?: number;
}

/**
 * Decides between being rung for and polling, by how much there is to do: as network drivers do, which turn
 * interrupts off under load. Knows no clock and no database.
 */
export class Rest {
  private saturatedSince: number | undefined;
  private isBusy = false;
  private windowFrom = -Infinity;
  private rings = 0;
  private jobs = 0;
  private pollIn = BUSY_POLL_MS.first;

  /** A notification came. Answers whether there are too many of them: then let go. */
  rang(now: number): boolean {
    this.enter(now);
    this.rings += 1;
    if (this.isBusy || this.rings < BUSY_RINGS) return false;
    this.isBusy = true;
    return true;
  }

  /**
   * A turn has ended.
   * @param found jobs
   * @param hasSpare whether more could have been claimed
   */
  after({ found, hasSpare }: { found: number; hasSpare: boolean }, now: number): Advice {
    this.enter(now);
    this.jobs += found;
    if (!hasSpare) {
      this.saturatedSince ??= now;
      this.pollIn = BUSY_POLL_MS.first;
      const isLasting = now - this.saturatedSince >= SATURATED_AFTER_MS;
      return { doorbell: isLasting ? 'let go' : 'as it is' };
    }
    this.saturatedSince = undefined;
    if (!this.isBusy) return { doorbell: 'wait' };
    this.pollIn = found > 0 ? BUSY_POLL_MS.first : Math.min(this.pollIn * 2, BUSY_POLL_MS.most);
    return { doorbell: 'as it is', pollIn: this.pollIn };
  }

  /** Begins a new window when the last one is over. */
  private enter(now: number): void {
    if (now - this.windowFrom < WINDOW_MS) return;
    if (this.isBusy && this.jobs < QUIET_JOBS) this.isBusy = false;
    this.windowFrom = now;
    this.rings = 0;
    this.jobs = 0;
  }
}
