/** After a job was found the next one is not far, as a rule. */
const FIRST_MS = 20;

/** How often to look where nothing rings: soon after a job was found, then less and less often. */
export class Poll {
  private delay: number;

  /** @param interval the longest time between two looks, in milliseconds */
  constructor(private readonly interval: number) {
    this.delay = interval;
  }

  /** Milliseconds until the next look, with a quarter more or less, so that processes don't look together. */
  after(found: number, isRungFor: boolean): number {
    this.delay = found > 0 ? FIRST_MS : Math.min(this.delay * 2, this.interval);
    const delay = isRungFor ? this.interval : Math.min(this.delay, this.interval);
    return delay * (0.75 + Math.random() / 2);
  }
}
