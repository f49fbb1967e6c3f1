import type { Logger } from '@nestjs/common';
import { PgQueueError, type PgQueueErrorCode } from '../contracts/errors.js';
import type { HandlerTable } from '../contracts/handler.js';
import { startTimer } from '../contracts/timer.js';
import type { AttemptKey } from '../store/statements/control.js';
import type { ClaimedJob, Lane, Settlement } from '../store/statements/exchange.js';
import { cancelled } from './completion.js';
import type { QueueSettings } from '../store/statements/queues.js';
import { describeError } from './error-record.js';
import { JobRun, type AttemptServices } from './job-run.js';
import type { Outcome } from './outcome.js';
import { settlementLine } from './settlement-line.js';
import { Slots } from './slots.js';

/** A job that waits in memory for longer is somebody else's to run. */
const HAND_BACK_AFTER_MS = 1_000;

export interface HeldJobsEvents {
  /** A handler is about to be called. */
  started(run: JobRun): void;
  /** A handler has ended; its job is still held, so that a lease that is over is noticed in time. */
  ended(): void;
  /** A job was claimed of what is paused, or was: the settings are to be read again. */
  doubted(): void;
  /** A job is not held any more: this is to be stored, unless the attempt has completed the job itself. */
  settled(run: JobRun, settlement: Settlement | undefined): void;
}

/** The jobs that this worker has claimed and not settled: those that run, and those that wait for a slot. */
export class HeldJobs {
  private readonly slots: Slots<JobRun>;
  private readonly held = new Set<JobRun>();
  /** Undefined: nothing was read yet. */
  private settings: QueueSettings | undefined;
  /** Claimed of what was paused when it was last read: by a claim from before, or since it goes on. */
  private readonly doubtful: JobRun[] = [];
  private isOpen = true;
  private whenNone: (() => void)[] = [];
  private claimedSoFar = 0;
  /** Attempts by how they ended, since the start. */
  readonly outcomes = { done: 0, retry: 0, release: 0, fail: 0, cancel: 0 };

  constructor(
    private readonly handlers: HandlerTable,
    private readonly queues: ReadonlyMap<string, number>,
    private readonly services: AttemptServices,
    private readonly events: HeldJobsEvents,
    private readonly logger: Logger,
  ) {
    this.slots = new Slots(handlers, queues);
  }

  get size(): number {
    return this.held.size;
  }

  /** Jobs claimed since the start. */
  get claims(): number {
    return this.claimedSoFar;
  }

  ids(workerId: string): string[] {
    return [...this.held].filter((run) => run.workerId === workerId).map((run) => run.job.id);
  }

  /** Of every life of the worker. */
  allIds(): string[] {
    return [...this.held].map((run) => run.job.id);
  }

  /** What to claim now, by how long an exchange takes in milliseconds. */
  lanes(roundTrip: number): Lane[] {
    return this.slots.lanes(roundTrip, performance.now());
  }

  /** A job was claimed. It waits for {@link begin}, or is handed back if nothing begins any more. */
  add(job: ClaimedJob, workerId: string): void {
    const handler = this.handlers.get(job.kind);
    if (handler === undefined) throw new TypeError(`There is no handler of ${job.kind} here`);
    const run = new JobRun(job, handler, workerId, this.services);
    this.claimedSoFar += 1;
    this.held.add(run);
    if (!this.isOpen) return this.handBack([run]);
    if (!this.isPaused(run)) return this.slots.add(run, performance.now());
    this.doubtful.push(run);
    this.events.doubted();
  }

  /** Whether it is not known what may begin: until the settings have been read, nothing is to be claimed. */
  get isInDoubt(): boolean {
    return this.settings === undefined || this.doubtful.length > 0;
  }

  /**
   * The settings were read: what has not begun of what is paused is handed back, and queues have the slots that
   * somebody gave them.
   */
  apply(settings: QueueSettings): void {
    this.settings = settings;
    const slots = new Map(settings.concurrency);
    for (const [queue, limit] of this.queues) {
      this.slots.resize(queue, slots.get(queue) ?? limit);
    }
    this.handBack(this.slots.drainWaiting((run) => this.isPaused(run)));
    for (const run of this.doubtful.splice(0)) {
      if (this.isOpen && !this.isPaused(run)) this.slots.add(run, performance.now());
      else this.handBack([run]);
    }
    this.begin();
  }

  /** Runs what slots allow. */
  begin(): void {
    if (this.isOpen) for (const run of this.slots.begin(performance.now())) this.run(run);
  }

  /** Jobs that were claimed ahead of slots which did not become free as soon as it looked. */
  handBackOverdue(): void {
    if (!this.slots.haveWaiting) return;
    this.handBack(this.slots.claimedBefore(performance.now() - HAND_BACK_AFTER_MS));
  }

  handBackWaiting(): void {
    this.handBack([...this.slots.drainWaiting(), ...this.doubtful.splice(0)]);
  }

  /** Nothing begins any more. */
  close(): void {
    this.isOpen = false;
    this.handBackWaiting();
  }

  /** Asks the handlers to stop, through their signals. */
  interrupt(code: PgQueueErrorCode, why: string, workerId?: string): void {
    for (const run of this.held) {
      if (workerId !== undefined && run.workerId !== workerId) continue;
      run.interrupt(new PgQueueError(code, `${why}: stop working on job ${run.job.id}.`));
    }
  }

  /** Somebody cancelled the job: asks its handler to stop. False = the attempt is not held here. */
  cancel({ id, leaseNo }: AttemptKey): boolean {
    for (const run of this.held) {
      if (run.job.id !== id || run.job.leaseNo !== leaseNo) continue;
      run.interrupt(cancelled(run.job));
      return true;
    }
    return false;
  }

  /** Waits for no handler any longer: their attempts are given back. */
  abandon(): void {
    for (const run of this.held) run.abandon();
  }

  /** Resolves when nothing is held, or after `limit` ms. */
  async untilNone(limit: number): Promise<void> {
    if (this.held.size === 0) return;
    await new Promise<void>((resolve) => {
      const stopTimer = startTimer(limit, resolve);
      this.whenNone.push(() => {
        stopTimer();
        resolve();
      });
    });
  }

  private isPaused({ queue, kind }: JobRun): boolean {
    if (this.settings === undefined) return false;
    const { pausedQueues, pausedKinds } = this.settings;
    return pausedQueues.includes(queue) || pausedKinds.includes(kind);
  }

  private run(run: JobRun): void {
    this.events.started(run);
    run.run((outcome) => this.ended(run, outcome));
  }

  private ended(run: JobRun, outcome: Outcome | undefined): void {
    this.events.ended();
    if (outcome) this.report(run, outcome);
    else this.outcomes.done += 1;
    const next = this.slots.release(run, performance.now());
    if (this.isOpen) for (const run of next) this.run(run);
    this.settle(run, outcome?.settlement);
  }

  private report(run: JobRun, { settlement, backoffFault }: Outcome): void {
    if (backoffFault !== undefined) {
      const { message } = describeError(backoffFault);
      this.logger.error(
        `The backoff of ${run.handler.origin} failed (${message}): the default is used`,
      );
    }
    this.outcomes[settlement.action] += 1;
    const line = settlementLine(run.job, settlement);
    if (line) this.logger[line.level](line.text);
  }

  private handBack(runs: readonly JobRun[]): void {
    for (const run of runs) {
      this.settle(run, { id: run.job.id, leaseNo: run.job.leaseNo, action: 'release' });
    }
  }

  private settle(run: JobRun, settlement: Settlement | undefined): void {
    this.held.delete(run);
    this.events.settled(run, settlement);
    if (this.held.size === 0) for (const resolve of this.whenNone.splice(0)) resolve();
  }
}
