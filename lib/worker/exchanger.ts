import { setImmediate } from 'node:timers/promises';
import type { Logger } from '@nestjs/common';
import { errorCode, isBadData, isConnectionUnusable, isMissingDay } from '../store/errors.js';
import type { JobStore } from '../store/job-store.js';
import {
  wantOf,
  type ExchangeRow,
  type Lane,
  type LimitsAnswer,
  type Settlement,
} from '../store/statements/exchange.js';
import { ClaimPace } from './claim-pace.js';
import { NOTHING_ASKED, type ExchangeHost, type Turn } from './exchange-host.js';
import type { Lease } from './lease.js';
import { Outbox } from './outbox.js';
import { Refusals } from './refusals.js';
import { ResumePositions, type LookPlan } from './resume-positions.js';

/** An exchange takes milliseconds; one that takes half of the lease, or this long, has lost its server. */
const EXCHANGE_LIMIT_MS = { least: 1_000, most: 15_000 };
/** A row that somebody has locked is tried again after this time at the latest. */
const BUSY_RETRY_MS = 100;
/** Somebody else is counting a limit, and will have ended after the time that a commit takes. */
const COUNT_AGAIN_MS = 5;
/** How long history goes to the overflow table before the day's partition is tried again. */
const OVERFLOW_MS = 60_000;

/** What an exchange tells the loop around it. */
export interface ExchangerEvents {
  /** There is more to do. */
  again(): void;
  /** There may be something to do after so many milliseconds. */
  within(ms: number): void;
  /** The database has answered. */
  answered(): void;
  /** An exchange may have claimed jobs and its answer is lost. */
  answerLost(): void;
}

/** One exchange: what is asked, and what becomes of the answer. */
export class Exchanger {
  readonly outbox = new Outbox();
  readonly refusals: Refusals;
  readonly positions = new ResumePositions();
  readonly pace = new ClaimPace();
  /** Milliseconds that the database has for an answer. */
  readonly limit: number;
  private overflowUntil = 0;
  /** Claimed jobs that are under a limit. */
  private readonly limited = new Set<string>();
  /** Those of them that have completed themselves. */
  private readonly completedLimited: string[] = [];
  /** Keys of limits with a free slot that could not be given on. */
  private freed: readonly string[] = [];

  constructor(
    private readonly store: JobStore,
    private readonly host: ExchangeHost,
    private readonly events: ExchangerEvents,
    lease: number,
    private readonly logger: Logger,
  ) {
    const { least, most } = EXCHANGE_LIMIT_MS;
    this.limit = Math.max(least, Math.min(most, lease / 2));
    this.refusals = new Refusals(this.outbox, logger);
  }

  /** A job was completed by its own transaction. */
  completed(id: string): void {
    if (this.limited.delete(id)) this.completedLimited.push(id);
  }

  /** Something may have become due, anywhere. */
  lookFully(): void {
    this.positions.lookFully();
    this.events.again();
  }

  /**
   * Settles what is in the outbox and claims for the lanes. What is refused goes out again in other company.
   * @throws what the database said, if that concerns the exchange as a whole: the outbox has everything again
   */
  async exchange(
    workerId: string,
    epoch: number,
    lanes: readonly Lane[],
    lease?: Lease,
  ): Promise<Turn> {
    const { batchLimit } = this.refusals;
    const settlements = this.outbox.take(workerId, batchLimit);
    const { freed, completedLimited } = this;
    const completedCount = completedLimited.length;
    const isIdle = settlements.length === 0 && freed.length === 0 && completedCount === 0;
    if (isIdle && lanes.length === 0) return NOTHING_ASKED;
    const sentAt = performance.now();
    const overflow = sentAt < this.overflowUntil;
    const budget = this.pace.budget(this.host.budget());
    const plan = this.positions.plan(lanes, sentAt);
    const { looks, dueAfter } = plan;
    const request = {
      worker: workerId,
      epoch,
      settlements,
      looks,
      dueAfter,
      budget,
      overflow,
      held: this.heldOf(settlements),
      freed: freed.length > 0 ? freed : undefined,
    };
    let rows: ExchangeRow[];
    try {
      rows = await this.meanwhile(this.store.exchange(request, this.limit));
    } catch (error) {
      if (isBadData(error) && !isMissingDay(error) && settlements.length > 0) {
        this.refusals.refused(workerId, settlements, lanes.length > 0, error);
        this.lookFully(); // what this look would have found
        return NOTHING_ASKED;
      }
      this.outbox.add(workerId, ...settlements);
      if (isConnectionUnusable(error)) this.events.answerLost();
      if (errorCode(error) === 'DATABASE_TIMEOUT') this.pace.tooSlow(lanes);
      if (isMissingDay(error)) {
        this.divertHistory();
        return NOTHING_ASKED;
      }
      throw error;
    }
    this.events.answered();
    this.completedLimited.splice(0, completedCount);
    if (settlements.length === batchLimit) this.events.again(); // there may be more
    this.refusals.stored();
    const answeredAt = performance.now();
    const { found, isAlive, hasMoreDue } = this.take(rows, workerId, settlements, lease, plan);
    if (lanes.length === 0 || !isAlive) return NOTHING_ASKED;
    this.pace.answered(answeredAt - sentAt);
    // A claim that got what it asked for has not seen the end of what is due.
    const hasSpare = found < Math.min(wantOf(lanes), budget ?? Infinity);
    return { found: found + Number(hasMoreDue), hasSpare, isFull: plan.isFull };
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
  ): { found: number; isAlive: boolean; hasMoreDue: boolean } {
    const busy = new Set<string>();
    const lost = new Set<string>();
    let found = 0;
    let isAlive = false;
    let hasMoreDue = false;
    let limits: LimitsAnswer | undefined;
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
          lost.add(row.id);
          this.host.lostJob(row.id);
          break;
        case 'already':
          break;
        case 'spent':
          found += 1;
          this.logger.warn(`Job ${row.id} had no attempts left when it was due: it is failed now`);
          this.host.attempts.spent(row.id);
          this.lookFully();
          break;
        case 'expired':
          found += 1;
          this.logger.log(`Job ${row.id} was cancelled: its deadline had passed when it was due`);
          this.lookFully();
          break;
        case 'dead':
          lease?.lose();
          break;
        case 'stale':
          if (lease === undefined) break;
          this.events.answerLost();
          this.events.again();
          break;
        case 'alive':
          if (plan.lanes.length > 0) this.positions.advance(plan, row.progress, performance.now());
          isAlive = true;
          hasMoreDue = row.dueIn === 0;
          this.lookAgainAt(row.dueIn);
          limits = row.progress.limits;
      }
    }
    if (this.limited.size > 0) {
      for (const { id } of settlements) if (!busy.has(id)) this.limited.delete(id);
    }
    found += this.counted(limits); // after that: a job that was released may have been claimed again
    if (settlements.length > 0) this.host.attempts.answered(settlements, busy, lost);
    if (busy.size > 0) {
      this.outbox.add(workerId, ...settlements.filter(({ id }) => busy.has(id)));
      this.events.within(BUSY_RETRY_MS);
    }
    return { found, isAlive, hasMoreDue };
  }

  private heldOf(settlements: readonly Settlement[]): string[] | undefined {
    if (this.limited.size === 0 && this.completedLimited.length === 0) return undefined;
    const settled = settlements.filter(({ id }) => this.limited.has(id)).map(({ id }) => id);
    const held = [...settled, ...this.completedLimited];
    return held.length > 0 ? held : undefined;
  }

  /** Takes in what limits did. Answers how many due jobs they put aside: behind those there may be more. */
  private counted(limits: LimitsAnswer | undefined): number {
    this.freed = limits?.refused ?? [];
    if (limits === undefined) return 0;
    for (const id of limits.held) this.limited.add(id);
    if (limits.parked > 0) this.events.again();
    if (limits.skipped || this.freed.length > 0) this.events.within(COUNT_AGAIN_MS);
    return limits.parked;
  }

  /** When the next scheduled job is due. 0: it is due already, and was not promoted. */
  private lookAgainAt(dueIn: number | undefined): void {
    if (dueIn === 0) return this.events.within(this.pace.promotionDelay());
    this.pace.promoted();
    if (dueIn !== undefined) this.events.within(dueIn);
  }

  private divertHistory(): void {
    this.overflowUntil = performance.now() + OVERFLOW_MS;
    this.host.missingDay();
    this.lookFully();
  }
}

function ignore(): void {}
