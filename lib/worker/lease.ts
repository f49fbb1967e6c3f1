import { randomUUID } from 'node:crypto';
import { startTimer } from '../contracts/timer.js';
import type { JobStore } from '../store/job-store.js';

/** A worker stops this share of the lease before it ends: its handlers need time to hear of it. */
const SAFETY_MARGIN = 0.1;

/** A heartbeat that takes longer is given up, so that the next one is sent in time. */
const HEARTBEAT_LIMIT_MS = 5_000;

export interface LeaseEvents {
  /** The lease has ended, or will before the next answer can come. Called once. */
  lost(): void;
  /** Workers that are dead or overdue, seen at a heartbeat. */
  overdue(workerIds: readonly string[]): void;
  /** A heartbeat failed; the lease may still hold. */
  failed(error: unknown): void;
}

/**
 * One life of this worker in the database: an id that is never used again, and the proof that it lives.
 * The lease is counted from when a renewal was sent, by a clock that nobody can set.
 */
export class Lease {
  readonly workerId = randomUUID();
  /** Which connection may claim: the database counts it up at each {@link JobStore.reconcile}. */
  epoch = 0;
  private over = false;
  private deadline = Infinity;
  private stopDeadline: () => void = () => {};
  private stopHeartbeat: () => void = () => {};

  constructor(
    private readonly store: JobStore,
    private readonly settings: { readonly lease: number; readonly heartbeat: number },
    private readonly events: LeaseEvents,
  ) {}

  /** Whether this worker may claim and its jobs are its own. */
  get held(): boolean {
    return !this.over;
  }

  /** Call when the row has been registered; `sentAt` is when that was sent. */
  begin(sentAt: number): void {
    this.renewedAt(sentAt);
    this.scheduleHeartbeat(this.settings.heartbeat);
  }

  /** Somebody found this worker dead, or it can't prove any more that it lives. */
  lose(): void {
    if (this.over) return;
    this.end();
    this.events.lost();
  }

  /** Looks at the clock: a handler that blocked the event loop has held up the timer that does. */
  loseIfOver(): void {
    if (performance.now() >= this.deadline) this.lose();
  }

  /** No heartbeat any more, and no loss: the worker stops by itself. */
  end(): void {
    this.over = true;
    this.stopDeadline();
    this.stopHeartbeat();
  }

  /** Sends a heartbeat now instead of at its time. */
  async renew(): Promise<void> {
    this.stopHeartbeat();
    const sentAt = performance.now();
    try {
      const limit = Math.min(HEARTBEAT_LIMIT_MS, this.settings.lease / 2);
      const { alive, overdue } = await this.store.heartbeat(
        this.workerId,
        this.settings.lease,
        limit,
      );
      if (this.over) return;
      if (!alive) return this.lose();
      this.renewedAt(sentAt);
      if (overdue.length > 0) this.events.overdue(overdue);
    } catch (error) {
      if (this.over) return;
      this.events.failed(error);
    }
    const elapsed = performance.now() - sentAt;
    this.scheduleHeartbeat(Math.max(50, this.settings.heartbeat - elapsed));
  }

  private renewedAt(sentAt: number): void {
    this.stopDeadline();
    this.deadline = sentAt + this.settings.lease * (1 - SAFETY_MARGIN);
    const left = Math.max(0, this.deadline - performance.now());
    this.stopDeadline = startTimer(left, () => this.lose());
  }

  private scheduleHeartbeat(ms: number): void {
    this.stopHeartbeat = startTimer(ms, () => void this.renew());
  }
}
