import { setTimeout as pause } from 'node:timers/promises';
import { isConnectionUnusable } from '../../lib/store/errors.js';
import type { QueueService } from '../../lib/queue/queue.service.js';
import type { Ledger } from './ledger.support.js';

const ROLLBACK = new Error('rolled back on purpose');

/**
 * Enqueues without end, as an application would: most jobs alone, some under a few dedupe keys, some in
 * transactions, of which some roll back; and sends failed jobs back to work. Writes down what it was told.
 */
export class Producer {
  private readonly stopping = new AbortController();
  private readonly working: Promise<void>;

  constructor(
    private readonly queue: QueueService,
    private readonly ledger: Ledger,
    private readonly random: () => number,
  ) {
    this.working = this.work();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.working;
  }

  private async work(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        await this.act();
      } catch (error) {
        // In an outage a caller learns nothing; anything else is not for callers to see.
        if (!isConnectionUnusable(error)) this.ledger.faults.push(error);
      }
      await pause(this.below(30), undefined, { signal }).catch(() => {});
    }
  }

  private async act(): Promise<void> {
    const draw = this.random();
    if (draw < 0.45) return this.enqueueAlone();
    if (draw < 0.6) return this.enqueueFlaky();
    if (draw < 0.8) return this.enqueueUnderKey();
    if (draw < 0.88) return this.rollBack();
    if (draw < 0.96) return this.enqueueTogether();
    const { retried } = await this.queue.retry({});
    for (const id of retried) this.ledger.retried.add(id);
  }

  private async enqueueAlone(): Promise<void> {
    const { id } = await this.queue.enqueue('quick', { ms: this.below(100) });
    this.ledger.accepted.add(id);
  }

  private async enqueueFlaky(): Promise<void> {
    const payload = { failures: this.below(4) };
    const options = { maxAttempts: 3, priority: 1 };
    const { id } = await this.queue.enqueue('flaky', payload, options);
    this.ledger.accepted.add(id);
  }

  private async enqueueUnderKey(): Promise<void> {
    const [kind, payload] =
      this.random() < 0.5
        ? (['quick', { ms: 50 }] as const)
        : (['flaky', { failures: 5 }] as const);
    const options = { maxAttempts: 3, dedupe: `key ${this.below(3)}` };
    const { id, outcome } = await this.queue.enqueue(kind, payload, options);
    if (outcome === 'inserted') this.ledger.accepted.add(id);
  }

  private async rollBack(): Promise<void> {
    await this.queue
      .transaction(async (tx) => {
        const options = this.random() < 0.5 ? { tx } : { tx, dedupe: `key ${this.below(3)}` };
        const { id, outcome } = await this.queue.enqueue('quick', {}, options);
        if (outcome === 'inserted') this.ledger.rolledBack.add(id);
        throw ROLLBACK;
      })
      .catch((error: unknown) => {
        if (error !== ROLLBACK) throw error;
      });
  }

  private async enqueueTogether(): Promise<void> {
    const results = await this.queue.transaction((tx) => {
      const job = { kind: 'quick', payload: { ms: this.below(20) } };
      return this.queue.enqueueMany([job, job, job], { tx });
    });
    for (const { id } of results) this.ledger.accepted.add(id);
  }

  private below(limit: number): number {
    return Math.floor(this.random() * limit);
  }
}
