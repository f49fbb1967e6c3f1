import { setTimeout as sleep } from 'node:timers/promises';

/**
 * A point that several parties must reach before any of them goes on. Here the mail server and the
 * webhook receiver answer only once both have been called: that proves that both jobs were under way
 * at the same time, and as each worker has a single slot for them, in two workers.
 */
export class Meeting {
  private arrived = 0;
  private readonly open = new AbortController();

  constructor(private readonly parties: number) {}

  get complete(): boolean {
    return this.arrived >= this.parties;
  }

  /** Goes on alone after a while: the check that follows then says what was wrong. */
  async join(patience: number): Promise<void> {
    this.arrived += 1;
    if (this.complete) return this.open.abort();
    await sleep(patience, undefined, { signal: this.open.signal, ref: false }).catch(() => {});
  }
}
