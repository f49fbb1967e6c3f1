import type {
  BulkOptions,
  BulkResult,
  FailedFilter,
  PausedKind,
  PauseTarget,
  PendingFilter,
  QueueRecord,
} from '../contracts/queue.js';
import type { JobStore } from '../store/job-store.js';
import {
  checkedConcurrency,
  checkedFailedFilter,
  checkedOptions,
  checkedPauseTarget,
  checkedPendingFilter,
  checkedQueueName,
} from './arguments.js';
import { clear, retryAll } from './bulk.js';

/** What concerns queues, kinds and many jobs at once. Part of `QueueService`. */
export class QueueControl {
  /** @internal */
  constructor(private readonly store: JobStore) {}

  /**
   * Cancels the pending jobs that match a filter (`{}` = all) and do not run, in batches. Those that are enqueued
   * meanwhile stay.
   */
  async clear(filter: PendingFilter, options: BulkOptions = {}): Promise<BulkResult> {
    return clear(
      this.store,
      checkedPendingFilter('clear', filter),
      checkedOptions('clear', options, ['dryRun', 'onProgress']),
    );
  }

  /** As `retry` by a filter, in batches that report how far it came, and with counts instead of ids. */
  async retryAll(filter: FailedFilter, options: BulkOptions = {}): Promise<BulkResult> {
    return retryAll(
      this.store,
      checkedFailedFilter('retryAll', filter),
      checkedOptions('retryAll', options, ['dryRun', 'onProgress']),
    );
  }

  /**
   * From the next claim of any process no job of the queue, or of the kind in any queue, begins. Those that run
   * go on. It holds until {@link resume}, and may be called before there is such a queue or kind.
   */
  async pause(target: PauseTarget): Promise<void> {
    return this.store.pause(checkedPauseTarget('pause', target));
  }

  /** Ends a {@link pause}, and wakes the workers. Nothing happens if there is none. */
  async resume(target: PauseTarget): Promise<void> {
    return this.store.resume(checkedPauseTarget('resume', target));
  }

  /**
   * Sets the slots that the queue has in each worker process, in place of what its options say; null = as they
   * say. Jobs beyond fewer slots go on to their end. Handlers with a `concurrency` of their own keep it.
   */
  async resize(queue: string, concurrency: number | null): Promise<void> {
    return this.store.resize(checkedQueueName(queue), checkedConcurrency(concurrency));
  }

  /** All queues with what is pending or failed in them, by name. */
  async queues(): Promise<QueueRecord[]> {
    return this.store.listQueues();
  }

  /** The kinds that are paused. */
  async pausedKinds(): Promise<PausedKind[]> {
    return this.store.listPausedKinds();
  }
}
