import type { Logger } from '@nestjs/common';
import type { Settlement } from '../store/statements/exchange.js';
import { describeError } from './error-record.js';
import type { Outbox } from './outbox.js';
import { isStorableFailure, storableFailure, withoutResult } from './unstorable.js';

/** Settlements of one exchange. Larger batches gain nothing more and hold row locks longer. */
const MAX_SETTLEMENTS = 500;
/** A job whose failure can't be stored either: somebody has to change the database. */
const RETRY_MS = 5_000;

/**
 * What to do with settlements that the database refuses: the batch is halved until the bad one stands alone,
 * without a claim that might be at fault; that one is sent without its result, else recorded as failed, else
 * set aside. Nothing else waits for it.
 */
export class Refusals {
  private limit = MAX_SETTLEMENTS;
  private asideUntil = Infinity;

  constructor(
    private readonly outbox: Outbox,
    private readonly logger: Logger,
  ) {}

  /** How many settlements may go together. */
  get batchLimit(): number {
    return this.limit;
  }

  /** Whether a bad settlement is being looked for: nothing is claimed beside it. */
  get areSearching(): boolean {
    return this.limit < MAX_SETTLEMENTS;
  }

  /** A batch was stored. */
  stored(): void {
    this.limit = MAX_SETTLEMENTS;
  }

  /** Puts what was set aside back into the outbox when its time has come. */
  bringBack(): void {
    if (performance.now() < this.asideUntil) return;
    this.asideUntil = Infinity;
    this.outbox.bringBack();
  }

  /** The database refused the batch; what becomes of it is in the outbox again. */
  refused(
    workerId: string,
    settlements: readonly Settlement[],
    besideClaim: boolean,
    error: unknown,
  ): void {
    const [bad, ...others] = settlements;
    if (bad === undefined || others.length > 0 || besideClaim) {
      this.limit = Math.max(1, Math.ceil(settlements.length / 2));
      this.outbox.add(workerId, ...settlements);
      return;
    }
    this.limit = MAX_SETTLEMENTS;
    this.replace(workerId, bad, error);
  }

  private replace(workerId: string, bad: Settlement, error: unknown): void {
    const success = withoutResult(bad);
    if (success) {
      const { message } = describeError(error);
      this.logger.error(`The result of job ${bad.id} can't be stored: ${message}`);
      this.outbox.add(workerId, success);
    } else if (isStorableFailure(bad)) {
      this.outbox.setAside(workerId, bad);
      this.asideUntil = performance.now() + RETRY_MS;
    } else {
      const failure = storableFailure(bad, error);
      this.logger.error(`Job ${bad.id} counts as failed: ${failure.error.message}`);
      this.outbox.add(workerId, failure);
    }
  }
}
