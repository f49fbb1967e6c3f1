import type { Logger } from '@nestjs/common';
import { reconnectDelay } from '../contracts/delay.js';
import { startTimer } from '../contracts/timer.js';
import type { JobStore } from '../store/job-store.js';
import type { WorkerRow } from '../store/statements/workers.js';
import { describeError } from './error-record.js';
import { Lease } from './lease.js';

/** A registration that takes this long, or as long as the lease, has lost its server. */
const REGISTER_LIMIT_MS = 10_000;

export interface LeaseKeeperEvents {
  /** A life has begun: jobs may be claimed. */
  begun(): void;
  /** A life has ended before its time; the next one is being begun. */
  lost(lease: Lease): void;
  /** Workers that are dead or overdue, seen at a heartbeat. */
  overdue(workerIds: readonly string[]): void;
}

/** Keeps a worker alive in the database: life after life, each under a new id, until it is stopped. */
export class LeaseKeeper {
  private lease: Lease | undefined;
  private stopped = false;
  private beginning: Promise<void> | undefined;
  private stopWaiting: () => void = () => {};

  constructor(
    private readonly store: JobStore,
    private readonly worker: Omit<WorkerRow, 'id'>,
    private readonly heartbeat: number,
    private readonly events: LeaseKeeperEvents,
    private readonly logger: Logger,
  ) {}

  /** The life that jobs may be claimed under; undefined while there is none. */
  get current(): Lease | undefined {
    return this.lease;
  }

  /** Begins a life. An absent database is waited for, so this resolves when it is registered, or stopped. */
  begin(): Promise<void> {
    this.beginning = this.register();
    return this.beginning;
  }

  /** No new life any more. The current one goes on until {@link retire}. */
  stop(): void {
    this.stopped = true;
    this.stopWaiting();
  }

  /** The farewell: what is held without being known is handed back, and the row goes if all is settled. */
  async retire(unsettledOf: (workerId: string) => string[], limit: number): Promise<void> {
    this.stop();
    await this.beginning;
    this.lease?.end();
    if (!this.lease) return;
    const { workerId } = this.lease;
    await this.store.retire(workerId, unsettledOf(workerId), limit);
  }

  private async register(): Promise<void> {
    for (let failures = 0; !this.stopped;) {
      const lease = this.newLease();
      const sentAt = performance.now();
      try {
        const row = { ...this.worker, id: lease.workerId };
        await this.store.register(row, Math.min(REGISTER_LIMIT_MS, this.worker.lease));
        this.lease = lease;
        if (this.stopped) return;
        lease.begin(sentAt);
        return this.events.begun();
      } catch (error) {
        failures += 1;
        if (failures === 1) {
          const { message } = describeError(error);
          this.logger.warn(`The worker can't be registered (${message}); trying again`);
        }
        await this.pause(reconnectDelay(failures));
      }
    }
  }

  private newLease(): Lease {
    const lease: Lease = new Lease(
      this.store,
      { lease: this.worker.lease, heartbeat: this.heartbeat },
      {
        lost: () => this.lost(lease),
        overdue: (workerIds) => this.events.overdue(workerIds),
        failed: () => {}, // the exchange loop tells of an outage, once
      },
    );
    return lease;
  }

  private lost(lease: Lease): void {
    this.lease = undefined;
    this.events.lost(lease);
    void this.begin();
  }

  private async pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const stopTimer = startTimer(ms, resolve);
      this.stopWaiting = () => {
        stopTimer();
        resolve();
      };
    });
  }
}
