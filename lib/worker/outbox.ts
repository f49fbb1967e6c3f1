import type { Settlement } from '../store/statements/exchange.js';

/**
 * Settlements that the database has not confirmed yet, for each worker id under which their jobs were
 * claimed. They stay here through any outage and go out again.
 */
export class Outbox {
  private readonly byWorker = new Map<string, Settlement[]>();

  add(workerId: string, ...settlements: readonly Settlement[]): void {
    const waiting = this.byWorker.get(workerId);
    if (waiting === undefined) this.byWorker.set(workerId, [...settlements]);
    else waiting.push(...settlements);
  }

  /** Takes out up to `limit` settlements, oldest first. What is not confirmed is to be added again. */
  take(workerId: string, limit: number): Settlement[] {
    const waiting = this.byWorker.get(workerId) ?? [];
    const taken = waiting.splice(0, limit);
    if (waiting.length === 0) this.byWorker.delete(workerId);
    return taken;
  }

  /** The worker ids that have something to settle. */
  workerIds(): string[] {
    return [...this.byWorker.keys()];
  }

  jobIds(workerId: string): string[] {
    return (this.byWorker.get(workerId) ?? []).map(({ id }) => id);
  }

  get size(): number {
    let size = 0;
    for (const waiting of this.byWorker.values()) size += waiting.length;
    return size;
  }
}
