import type { Settlement } from '../store/statements/exchange.js';

/**
 * Settlements that the database has not confirmed yet, for each worker id under which their jobs were
 * claimed. They stay here through any outage and go out again.
 */
export class Outbox {
  private readonly byWorker = new Map<string, Settlement[]>();
  private readonly aside: { readonly workerId: string; readonly settlement: Settlement }[] = [];

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

  /** Keeps a settlement back, so that nothing waits for it, until {@link bringBack}. */
  setAside(workerId: string, settlement: Settlement): void {
    this.aside.push({ workerId, settlement });
  }

  bringBack(): void {
    for (const { workerId, settlement } of this.aside.splice(0)) this.add(workerId, settlement);
  }

  /** The worker ids that have something to settle. */
  workerIds(): string[] {
    return [...this.byWorker.keys()];
  }

  /** What is set aside included: the jobs are this worker's all the same. */
  jobIds(workerId: string): string[] {
    const aside = this.aside.filter((kept) => kept.workerId === workerId);
    const all = [...(this.byWorker.get(workerId) ?? []), ...aside.map((kept) => kept.settlement)];
    return all.map(({ id }) => id);
  }

  /** Without what is set aside. */
  get size(): number {
    let size = 0;
    for (const waiting of this.byWorker.values()) size += waiting.length;
    return size;
  }
}
