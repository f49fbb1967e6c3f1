import { boundedDelay, MAX_TIMER_MS } from '../contracts/delay.js';

/**
 * What the exchange loop sleeps on. A ring while nobody sleeps is not lost: the next wait returns at once.
 * One sleeper.
 */
export class Wakeup {
  private rung = false;
  private wake: (() => void) | undefined;
  private dueAt = Infinity;

  /** Something to do now. */
  ring(): void {
    this.rung = true;
    this.wake?.();
  }

  /** Something to do in `ms` at the latest; an earlier time that was said before stays. */
  within(ms: number): void {
    this.dueAt = Math.min(this.dueAt, performance.now() + ms);
  }

  /** Resolves at the next ring or due time, and forgets both. Answers whether it was rung. */
  async wait(): Promise<boolean> {
    while (!this.rung) {
      const left = this.dueAt - performance.now();
      if (left <= 0) break;
      await this.sleep(boundedDelay(Math.ceil(left), MAX_TIMER_MS));
    }
    const { rung } = this;
    this.rung = false;
    this.dueAt = Infinity;
    return rung;
  }

  private async sleep(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.wake = resolve;
      timer = setTimeout(resolve, ms);
    });
    this.wake = undefined;
    clearTimeout(timer);
  }
}
