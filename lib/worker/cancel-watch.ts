import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@nestjs/common';
import { startTimer } from '../contracts/timer.js';
import type { JobStore } from '../store/job-store.js';
import type { AttemptKey } from '../store/statements/control.js';
import { describeError } from './error-record.js';

/** The answer of the exchange that claimed a job may come after the notification that is about it. */
const AGAIN_MS = 50;

/** The jobs that a worker holds, as far as they can be cancelled. */
export interface CancellableJobs {
  allIds(): string[];
  /** Aborts the attempt's signal; false = it is not held here. */
  cancel(attempt: AttemptKey): boolean;
}

/**
 * Hears that jobs which run here were cancelled. The request stands in the job's row, where whatever ends the
 * attempt finds it; this only makes the handler stop sooner. A notification tells at once; a look at the rows of
 * the jobs that are held finds those that were missed, and is all there is without a listener.
 */
export class CancelWatch {
  private isStopped = false;
  private stopTimer: () => void = () => {};
  private looking: Promise<void> = Promise.resolve();

  /** @param interval milliseconds until the next look */
  constructor(
    private readonly store: Pick<JobStore, 'cancelRequests'>,
    private readonly jobs: CancellableJobs,
    private readonly interval: () => number,
    private readonly logger: Pick<Logger, 'debug'>,
  ) {}

  start(): void {
    if (this.isStopped) return;
    this.stopTimer = startTimer(this.interval(), () => {
      this.looking = this.look().finally(() => this.start());
    });
  }

  /** Resolves when the look that is under way has ended. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.stopTimer();
    await this.looking;
  }

  /** A notification: `id:lease_no`, of a job of any worker. */
  async heard(notification: string): Promise<void> {
    const [id = '', leaseNo] = notification.split(':');
    const attempt = { id, leaseNo: Number(leaseNo) };
    if (this.jobs.cancel(attempt)) return;
    await sleep(AGAIN_MS, undefined, { ref: false });
    this.jobs.cancel(attempt);
  }

  private async look(): Promise<void> {
    const ids = this.jobs.allIds();
    if (ids.length === 0) return;
    try {
      for (const attempt of await this.store.cancelRequests(ids)) this.jobs.cancel(attempt);
    } catch (error) {
      // Of an outage the exchange loop tells, once.
      this.logger.debug(`Requests to cancel could not be read: ${describeError(error).message}`);
    }
  }
}
