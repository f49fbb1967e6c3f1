import { PgQueueError } from '../contracts/errors.js';
import { checkedLimit, type Limit, type LimitRecord } from '../contracts/limits.js';
import type { JobStore } from '../store/job-store.js';

/** Limits at run time: `queue.limits`. A change holds from the next claim on, in all workers. */
export class Limits {
  /** @internal */
  constructor(private readonly store: JobStore) {}

  /** All limits, by name: those that the code declares and those that were made by hand. */
  list(): Promise<LimitRecord[]> {
    return this.store.listLimits();
  }

  /**
   * Makes a limit, or gives the one of this name other values. One that the code declares keeps them until
   * the code says something else. Jobs that run already are not interrupted, nor counted by a new limit.
   * @throws PgQueueError `INVALID_OPTION`
   */
  async set(limit: Limit): Promise<void> {
    await this.store.setLimit(checkedLimit('limit', limit), { declared: false });
  }

  /** Removes a limit; jobs that waited for it may run. One that the code declares comes back at the next start. */
  async remove(name: string): Promise<boolean> {
    if (typeof name !== 'string') {
      throw new PgQueueError('INVALID_ARGUMENT', '`remove` of limits needs the name of one.');
    }
    return this.store.removeLimit(name);
  }
}
