import { setImmediate } from 'node:timers/promises';
import type { Logger } from '@nestjs/common';
import { errorCode, isBadData, isConnectionUnusable, isMissingDay } from '../store/errors.js';
import type { JobStore } from '../store/job-store.js';
import {
  wantOf,
  type ExchangeRow,
  type Lane,
  type Settlement,
} from '../store/statements/exchange.js';
import { ClaimPace } from './claim-pace.js';
import { NOTHING_ASKED, type ExchangeHost, type Turn } from './exchange-host.js';
import type { Lease } from './lease.js';
import { Outage } from './outage.js';
import { Outbox } from './outbox.js';
import { Refusals } from './refusals.js';
import { ResumePositions, type LookPlan } from './resume-positions.js';
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
  private readonly positions = new ResumePositions();
  /** Claimed jobs begin when the next request is on its way, so that neither side waits for the other. */
  private goesOnAtOnce = false;
  private mustReconcile = false;
  private reconcileAt = performance.now() + RECONCILE_EVERY_MS;
  private overflowUntil = 0;

  constructor(
    private readonly store: JobStore,
    private readonly host: ExchangeHost,
    private readonly settings: { readonly lease: number },
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

  /** Something may have become due, anywhere: look at the table now. */
  ring(): void {
    this.positions.lookFully();
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
    this.wakeup.ring();
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
      // What was waited for in vain may be behind a position.
      if (!(await this.wakeup.wait())) this.positions.lookFully();
      // What ends in the same turn of the event loop goes into the same exchange.
      await setImmediate();
      if (signal.aborted) return;
      this.goesOnAtOnce = false;
      try {
        await this.turn();
        this.reportFlushed();
      } catch (error) {
        // Rings don't shorten this: a thousand jobs that end in an outage must not be a thousand tries.
        this.host.begin();
        this.pause.within(this.outage.failed(error));
        await this.pause.wait();
        this.ring();
      }
      if (!this.goesOnAtOnce) this.host.begin();
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
    const lanes = this.refusals.areSearching ? [] : this.host.lanes(this.pace.roundTrip);
    const turn = await this.exchange(lease.workerId, lease.epoch, lanes, lease);
    this.wakeup.within(this.host.exchanged(turn));
    if (!turn.hasSpare || turn.isFull || turn.found > 0) return;
    this.positions.lookFully();
    this.wakeup.within(this.positions.fullLookIn(performance.now()));
  }

  private reportFlushed(): void {
    if (this.outbox.size === 0) for (const resolve of this.onFlushed.splice(0)) resolve();
  }

  private async exchange(
    workerId: string,
    epoch: number,
    lanes: readonly Lane[],
    lease?: Lease,
  ): Promise<Turn> {
    const { batchLimit } = this.refusals;
    const settlements = this.outbox.take(workerId, batchLimit);
    if (settlements.length === 0 && lanes.length === 0) return NOTHING_ASKED;
    const sentAt = performance.now();
    const overflow = sentAt < this.overflowUntil;
    const budget = this.pace.budget(this.host.budget());
    const plan = this.positions.plan(lanes, sentAt);
    const { looks, dueAfter } = plan;
    const request = { worker: workerId, epoch, settlements, looks, dueAfter, budget, overflow };
    let rows: ExchangeRow[];
    try {
      rows = await this.meanwhile(this.store.exchange(request, this.limit));
    } catch (error) {
      if (isBadData(error) && !isMissingDay(error) && settlements.length > 0) {
        this.refusals.refused(workerId, settlements, lanes.length > 0, error);
        this.ring();
        return NOTHING_ASKED;
      }
      this.outbox.add(workerId, ...settlements);
      if (isConnectionUnusable(error)) this.mustReconcile = true;
      if (errorCode(error) === 'DATABASE_TIMEOUT') this.pace.tooSlow(lanes);
      if (isMissingDay(error)) {
        this.divertHistory();
        return NOTHING_ASKED;
      }
      throw error;
    }
    this.outage.over();
    if (settlements.length === batchLimit) this.wakeup.ring(); // there may be more
    this.refusals.stored();
    const now = performance.now();
    this.pace.answered(now - sentAt);
    const found = this.take(rows, workerId, settlements, lease, plan);
    if (lanes.length === 0) return NOTHING_ASKED;
    // A claim that got what it asked for has not seen the end of what is due.
    const hasSpare = found < Math.min(wantOf(lanes), budget ?? Infinity);
    if (!hasSpare) {
      this.goesOnAtOnce = true;
      this.wakeup.ring();
    }
    return { found, hasSpare, isFull: plan.isFull };
  }

  /** Lets jobs begin that were claimed before, when the request has been written. */
  private async meanwhile<T>(answer: Promise<T>): Promise<T> {
    answer.catch(ignore); // it is awaited below
    await setImmediate();
    this.host.begin();
    return answer;
  }

  private take(
    rows: readonly ExchangeRow[],
    workerId: string,
    settlements: readonly Settlement[],
    lease: Lease | undefined,
    plan: LookPlan,
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
          this.positions.advance(plan, row.progress, performance.now());
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

  private divertHistory(): void {
    this.overflowUntil = performance.now() + OVERFLOW_MS;
    this.host.missingDay();
    this.ring();
  }
}

function ignore(): void {}
