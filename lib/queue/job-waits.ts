import { reconnectDelay } from '../contracts/delay.js';
import { startTimer } from '../contracts/timer.js';
import { errorCode, isConnectionUnusable } from '../store/errors.js';
import type { FoundJob } from '../store/statements/job-records.js';
import { goesAlong, nextLook, type WaitSpan } from './wait-pace.js';
import { waitOutcome, waitTimedOut } from './wait-outcome.js';

/** A look that takes this long has lost its server, or stands in a queue for a connection. */
const LOOK_LIMIT_MS = 5_000;

/** What waits need of the queue around them. */
export interface WaitPorts {
  /** The pending ones of these jobs. */
  readonly stillPending: (ids: readonly string[], limit: number) => Promise<string[]>;
  /** Those of these jobs that there are, wherever they stand. */
  readonly getJobs: (ids: readonly string[], limit: number) => Promise<FoundJob[]>;
  /** Calls with the id of each job that has ended in this process, until the answered function is called. */
  readonly onEnded: (listener: (id: string) => void) => () => void;
}

/** One call that waits. */
interface Wait extends WaitSpan {
  readonly id: string;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly stopTimer: () => void;
  /** When to look at the job. */
  dueAt: number;
  /** Whether the job is known to have existed. */
  wasSeen: boolean;
  /** Why the latest look had no answer. */
  lookError: unknown;
}

/**
 * All waits of a process. They share one look at a time, on the callers' connections, and hold none between two:
 * often at first, then less often. A job that ends in this process is looked at at once. No notification is
 * sent for waits: NOTIFY makes commits of the whole database stand in line, and a settle would have to find out
 * for every job whether somebody waits.
 */
export class JobWaits {
  private readonly byId = new Map<string, Set<Wait>>();
  private isLooking = false;
  private failures = 0;
  /** After a failed look none goes out before this time. */
  private pausedUntil = 0;
  /** When the timer goes off. */
  private armedFor = Infinity;
  private stopTimer = () => {};
  private stopHints = () => {};

  constructor(private readonly ports: WaitPorts) {}

  /**
   * Resolves to what the handler of a job returned.
   * @param isNew the job has just been enqueued: it is not looked at at once
   * @throws JobWaitError as {@link waitOutcome} says, or `WAIT_TIMEOUT`; what PostgreSQL answered to a look
   */
  wait(id: string, span: WaitSpan, isNew: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const now = performance.now();
      const { since, deadline } = span;
      const stopTimer = startTimer(Math.max(0, deadline - now), () => {
        if (this.remove(wait)) reject(waitTimedOut(id, deadline - since, wait.lookError));
      });
      const dueAt = isNew ? nextLook(span, now) : now;
      const settings = { id, resolve, reject, stopTimer, dueAt, wasSeen: isNew };
      const wait: Wait = { ...span, ...settings, lookError: undefined };
      this.add(wait);
    });
  }

  private add(wait: Wait): void {
    if (this.byId.size === 0) this.stopHints = this.ports.onEnded((id) => this.ended(id));
    const waits = this.byId.get(wait.id);
    if (waits === undefined) this.byId.set(wait.id, new Set([wait]));
    else waits.add(wait);
    this.armFor(wait.dueAt);
  }

  /** False: it has ended before. */
  private remove(wait: Wait): boolean {
    const waits = this.byId.get(wait.id);
    if (!waits?.delete(wait)) return false;
    wait.stopTimer();
    if (waits.size === 0) this.byId.delete(wait.id);
    if (this.byId.size === 0) {
      this.stopHints();
      this.disarm();
    }
    return true;
  }

  /** A hint. A look that is on its way may have been too early, so the job is due again in any case. */
  private ended(id: string): void {
    const waits = this.byId.get(id);
    if (waits === undefined) return;
    for (const wait of waits) wait.dueAt = 0;
    this.armFor(0);
  }

  /** Sets the timer to the wait that is due first. */
  private arm(): void {
    this.disarm();
    let dueAt = Infinity;
    for (const wait of this.all()) dueAt = Math.min(dueAt, wait.dueAt);
    if (dueAt < Infinity) this.armFor(dueAt);
  }

  /** The next look goes out then, if not sooner. While one is on its way its end sees to that. */
  private armFor(dueAt: number): void {
    const at = Math.max(dueAt, this.pausedUntil);
    if (this.isLooking || at >= this.armedFor) return;
    this.disarm();
    this.armedFor = at;
    const delay = Math.max(0, at - performance.now());
    this.stopTimer = startTimer(delay, () => void this.look());
  }

  private disarm(): void {
    this.stopTimer();
    this.armedFor = Infinity;
  }

  /** Never rejects. */
  private async look(): Promise<void> {
    this.armedFor = Infinity;
    const waits = this.takeDue(performance.now());
    if (waits.length === 0) return this.arm();
    this.isLooking = true;
    try {
      await this.lookAt(waits);
      this.failures = 0;
    } catch (error) {
      this.failed(waits, error);
    }
    this.isLooking = false;
    this.arm();
  }

  /** Sets the next time before the look goes out: a hint that comes meanwhile is not overwritten. */
  private takeDue(now: number): Wait[] {
    const due = [...this.all()].filter((wait) => goesAlong(wait, wait.dueAt, now));
    for (const wait of due) wait.dueAt = nextLook(wait, now);
    return due;
  }

  /** What is not pending has ended, or moves back in this moment: one statement over all tables says which. */
  private async lookAt(waits: readonly Wait[]): Promise<void> {
    const ids = [...new Set(waits.map(({ id }) => id))];
    const pending = new Set(await this.ports.stillPending(ids, LOOK_LIMIT_MS));
    for (const wait of waits) wait.wasSeen ||= pending.has(wait.id);
    const gone = ids.filter((id) => !pending.has(id));
    if (gone.length === 0) return;
    const found = await this.ports.getJobs(gone, LOOK_LIMIT_MS);
    const byId = new Map(found.map((entry) => [entry.job.id, entry]));
    for (const wait of waits) if (!pending.has(wait.id)) this.conclude(wait, byId.get(wait.id));
  }

  private conclude(wait: Wait, found: FoundJob | undefined): void {
    const outcome = waitOutcome(wait.id, wait.wasSeen, found);
    if (outcome === undefined || !this.remove(wait)) return;
    if ('error' in outcome) wait.reject(outcome.error);
    else wait.resolve(outcome.value);
  }

  /** A database that can't be reached is waited for; what it answers, and the end of the queue, concern the callers. */
  private failed(waits: readonly Wait[], error: unknown): void {
    const isOver = errorCode(error) === 'CLOSED';
    if (isOver || !isConnectionUnusable(error)) {
      for (const wait of isOver ? [...this.all()] : waits) {
        if (this.remove(wait)) wait.reject(error);
      }
      return;
    }
    for (const wait of waits) wait.lookError = error;
    this.failures += 1;
    this.pausedUntil = performance.now() + reconnectDelay(this.failures);
  }

  private *all(): Generator<Wait> {
    for (const waits of this.byId.values()) yield* waits;
  }
}
