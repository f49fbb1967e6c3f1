import type { Logger } from '@nestjs/common';
import type { JobStore } from '../../store/job-store.js';
import { describeError } from '../error-record.js';

const BATCH = 500;

const ENDS: Readonly<Record<string, string>> = {
  freed: 'is due again',
  failed: 'had no attempts left: it is failed now',
  cancelled: 'was to be cancelled: it is now',
};

/** Brings back the jobs of workers that are gone. Every worker does it; they don't get in each other's way. */
export class Rescue {
  private underway: Promise<void> | undefined;

  constructor(
    private readonly store: JobStore,
    private readonly logger: Logger,
    /** Hears of jobs that had no attempts left and are failed now. */
    private readonly failed: (ids: readonly string[]) => void = () => {},
  ) {}

  /** The scan that no sign asked for: it also finds jobs whose worker has no row. Never rejects. */
  atStart(): Promise<void> {
    return this.once(async () => {
      await this.declareDead(await this.store.listOverdue());
      await this.freeJobs(true);
    });
  }

  /** Declares overdue workers dead, then frees what they held. Never rejects. */
  from(overdue: readonly string[]): Promise<void> {
    return this.once(async () => {
      await this.declareDead(overdue);
      await this.freeJobs(false);
    });
  }

  /** Frees the jobs of workers that have no row, and of dead ones. */
  strays(): Promise<void> {
    return this.freeJobs(true);
  }

  /** One at a time, on one connection: who is overdue still will be seen again at the next heartbeat. */
  private once(work: () => Promise<void>): Promise<void> {
    this.underway ??= work()
      .catch((error: unknown) => {
        const { message } = describeError(error);
        this.logger.debug(`A rescue failed (${message}); it is tried again at the next heartbeat`);
      })
      .finally(() => {
        this.underway = undefined;
      });
    return this.underway;
  }

  private async declareDead(workerIds: readonly string[]): Promise<void> {
    for (const workerId of workerIds) {
      const name = await this.store.declareDead(workerId);
      if (name !== null) this.logger.warn(`The worker ${name} is dead: its lease has expired`);
    }
  }

  private async freeJobs(strays: boolean): Promise<void> {
    for (;;) {
      const rescued = await this.store.rescue(strays, BATCH);
      for (const { id, kind, worker, outcome } of rescued) {
        const end = ENDS[outcome] ?? `could not be freed (${outcome})`;
        this.logger.warn(`Job ${id} (${kind}) of the dead worker ${worker} ${end}`);
      }
      this.failed(rescued.filter(({ outcome }) => outcome === 'failed').map(({ id }) => id));
      const moved = rescued.filter(({ outcome }) => outcome in ENDS).length;
      if (rescued.length < BATCH || moved === 0) break;
    }
    await this.store.sweepSlots(); // what the dead held under limits
  }
}
