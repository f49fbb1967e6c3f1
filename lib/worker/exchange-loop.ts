import { setImmediate } from 'node:timers/promises';
import type { Logger } from '@nestjs/common';
import { errorCode, isBadData, isConnectionUnusable, isMissingDay } from '../store/errors.js';
import type { JobStore } from '../store/job-store.js';
import type { ClaimedJob, ExchangeRow, Lane, Settlement } from '../store/statements/exchange.js';
import { ClaimPace } from './claim-pace.js';
import type { Lease } from './lease.js';
import { Outage } from './outage.js';
import { Outbox } from './outbox.js';
import { Refusals } from './refusals.js';
import { Wakeup } from './wakeup.js';

/** An exchange takes milliseconds; one that takes half of the lease, or this long, has lost its server. */
const EXCHANGE_LIMIT_MS = { least: 1_000, most: 15_000 };
/** A row that somebody has locked is tried again after this time at the latest. */
const BUSY_RETRY_MS = 100;
/** Claims whose answer was lost are looked for after every broken connection, and this often anyway. */
const RECONCILE_EVERY_MS = 5 * 60_000;
const RECONCILE_AGAIN_MS = 5_000;
/** How long history goes to the overflow table before the day's partition is tried again. */
const OVERFLOW_MS = 60_000;

/** What the loop needs of the worker around it. */
export interface ExchangeHost {
  /** Under which id to claim; undefined while there is none. */
  currentLease(): Lease | undefined;
  /** What to ask for now. Empty when nothing is to be claimed. */
  lanes(): Lane[];
  /** How many jobs may still be claimed over all lanes; undefined = no bound. */
  budget(): number | undefined;
  /** Ids of jobs that are in memory and not settled yet. */
  heldJobs(workerId: string): string[];
  /** A job is this worker's now. */
  claimed(job: ClaimedJob, workerId: string): void;
  /** A job turned out not to be this worker's any more: nothing was stored. */
  lostJob(id: string): void;
  /** A turn has ended in which this many due jobs were found. 0 = what could be claimed has been. */
  exchanged(found: number): void;
  /** Today has no partition in the history. */
  missingDay(): void;
}

/**
 * Settles and claims, one exchange after the other: while one is on its way, results pile up, and they go
 * out together with the request for as many jobs as there are free slots. No number of errors ends it.
 */
export class ExchangeLoop {
  readonly outbox = new Outbox();
  private readonly wakeup = new Wakeup();
  /** Between two tries in an outage. */
  private readonly pause = new Wakeup();
  private readonly stopping = new AbortController();
  private readonly limit: number;
  private running: Promise<void> | undefined;
  private readonly onFlushed: (() => void)[] = [];
  private readonly outage: Outage;
  private readonly refusals: Refusals;
  private readonly pace = new ClaimPace();
  private mustReconcile = false;
  private reconcileAt = performance.now() + RECONCILE_EVERY_MS;
  private overflowUntil = 0;

  constructor(
    private readonly store: JobStore,
    private readonly host: ExchangeHost,
    private readonly settings: { readonly pollInterval: number; readonly lease: number },
    private readonly logger: Logger,
  ) {
    const { least, most } = EXCHANGE_LIMIT_MS;
    this.limit = Math.max(least, Math.min(most, settings.lease / 2));
    this.outage = new Outage(logger);
    this.refusals = new Refusals(this.outbox, logger);
  }

  start(): void {
    this.running ??= this.run();
    this.ring();
  }

  /** Look at the table now. */
  ring(): void {
    this.wakeup.ring();
  }

  /**
   * The database has answered someone else: the pause after a failure is over. After an outage longer than
   * the lease this sends the results of the old life before anyone looks for its jobs.
   */
  resume(): void {
    if (this.outage.isOn) this.pause.ring();
    this.ring();
  }

  /** An attempt has ended: its settlement goes out with the next exchange. */
  settle(workerId: string, ...settlements: readonly Settlement[]): void {
    if (settlements.length === 0) return;
    this.outbox.add(workerId, ...settlements);
    this.ring();
  }

  /** Whether the database did not answer the latest exchange. */
  get isFailing(): boolean {
    return this.outage.isOn;
  }

  /** Resolves when everything in the outbox has been answered. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      this.onFlushed.push(resolve);
      this.ring();
    });
  }

  /** Ends after the exchange that is on its way. What is in the outbox then stays there. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.pause.ring();
    this.ring();
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      await this.wakeup.wait();
      // What ends in the same turn of the event loop goes into the same exchange.
      await setImmediate();
      if (signal.aborted) return;
      try {
        await this.turn();
        this.reportFlushed();
      } catch (error) {
        // Rings don't shorten this: a thousand jobs that end in an outage must not be a thousand tries.
        this.pause.within(this.outage.failed(error));
        await this.pause.wait();
        this.ring();
      }
    }
  }

  private async turn(): Promise<void> {
    const lease = this.host.currentLease();
    this.refusals.bringBack();
    // A life that is over can still settle what nobody has taken from it; those go first.
    for (const workerId of this.outbox.workerIds()) {
      if (workerId !== lease?.workerId) await this.exchange(workerId, 0, []);
    }
    if (lease === undefined || !lease.held) return;
    if (this.mustReconcile || performance.now() >= this.reconcileAt) await this.reconcile(lease);
    const lanes = this.refusals.areSearching ? [] : this.host.lanes();
    this.host.exchanged(await this.exchange(lease.workerId, lease.epoch, lanes, lease));
    this.wakeup.within(this.settings.pollInterval * (0.75 + Math.random() / 2));
  }

  private reportFlushed(): void {
    if (this.outbox.size === 0) for (const resolve of this.onFlushed.splice(0)) resolve();
  }

  private async exchange(
    workerId: string,
    epoch: number,
    lanes: readonly Lane[],
    lease?: Lease,
  ): Promise<number> {
    const { batchLimit } = this.refusals;
    const settlements = this.outbox.take(workerId, batchLimit);
    if (settlements.length === 0 && lanes.length === 0) return 0;
    const overflow = performance.now() < this.overflowUntil;
    const budget = this.pace.budget(this.host.budget());
    const request = { worker: workerId, epoch, settlements, lanes, budget, overflow };
    let rows: ExchangeRow[];
    try {
      rows = await this.store.exchange(request, this.limit);
    } catch (error) {
      if (isBadData(error) && !isMissingDay(error) && settlements.length > 0) {
        this.refusals.refused(workerId, settlements, lanes.length > 0, error);
        this.ring();
        return 1;
      }
      this.outbox.add(workerId, ...settlements);
      if (isConnectionUnusable(error)) this.mustReconcile = true;
      if (errorCode(error) === 'DATABASE_TIMEOUT') this.pace.tooSlow(lanes);
      if (isMissingDay(error)) return this.divertHistory();
      throw error;
    }
    this.outage.over();
    if (settlements.length === batchLimit) this.ring(); // there may be more
    this.refusals.stored();
    this.pace.answered();
    const found = this.take(rows, workerId, settlements, lease);
    // A claim that was bounded by more than its slots has not seen the end of what is due.
    if (budget !== undefined && found >= budget) this.ring();
    return found;
  }

  private take(
    rows: readonly ExchangeRow[],
    workerId: string,
    settlements: readonly Settlement[],
    lease: Lease | undefined,
  ): number {
    const busy = new Set<string>();
    let found = 0;
    for (const row of rows) {
      switch (row.answer) {
        case 'job':
          found += 1;
          this.host.claimed(row.job, workerId);
          break;
        case 'busy':
          busy.add(row.id);
          break;
        case 'lost':
          this.host.lostJob(row.id);
          break;
        case 'already':
          break;
        case 'spent':
          found += 1;
          this.logger.warn(`Job ${row.id} had no attempts left when it was due: it is failed now`);
          this.ring();
          break;
        case 'dead':
          lease?.lose();
          break;
        case 'stale':
          if (lease === undefined) break;
          this.mustReconcile = true;
          this.ring();
          break;
        case 'alive':
          found += this.lookAgainAt(row.dueIn);
      }
    }
    if (busy.size > 0) {
      this.outbox.add(workerId, ...settlements.filter(({ id }) => busy.has(id)));
      this.wakeup.within(BUSY_RETRY_MS);
    }
    return found;
  }

  /** When the next scheduled job is due. One that is due already, and was not promoted, counts as found. */
  private lookAgainAt(dueIn: number | undefined): number {
    if (dueIn === 0) {
      this.wakeup.within(this.pace.promotionDelay());
      return 1;
    }
    this.pace.promoted();
    if (dueIn !== undefined) this.wakeup.within(dueIn);
    return 0;
  }

  /** Finds claims whose answer was lost, and shuts out an exchange that may still be on its way. */
  private async reconcile(lease: Lease): Promise<void> {
    const known = [...this.host.heldJobs(lease.workerId), ...this.outbox.jobIds(lease.workerId)];
    const { epoch, released, remaining } = await this.store.reconcile(
      lease.workerId,
      known,
      this.limit,
    );
    if (epoch === undefined) return lease.lose();
    lease.epoch = epoch;
    this.mustReconcile = false;
    this.reconcileAt =
      performance.now() + (remaining > 0 ? RECONCILE_AGAIN_MS : RECONCILE_EVERY_MS);
    if (released > 0) {
      this.logger.warn(
        `Handed back ${released} jobs that were claimed by an exchange whose answer was lost`,
      );
    }
  }

  private divertHistory(): number {
    this.overflowUntil = performance.now() + OVERFLOW_MS;
    this.host.missingDay();
    this.ring();
    return 1;
  }
}
