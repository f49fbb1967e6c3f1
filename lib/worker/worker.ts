import { hostname } from 'node:os';
import type { Logger } from '@nestjs/common';
import { PgQueueError, type PgQueueErrorCode } from '../contracts/errors.js';
import type { HandlerTable } from '../contracts/handler.js';
import type { ResolvedWorkerOptions } from '../contracts/options.js';
import { DEFAULTS } from '../contracts/resolve-options.js';
import { startTimer } from '../contracts/timer.js';
import { within } from '../contracts/within.js';
import type { JobStore } from '../store/job-store.js';
import type { ClaimedJob, Lane, Settlement } from '../store/statements/exchange.js';
import type { WorkerRow } from '../store/statements/workers.js';
import { Doorbell } from './doorbell.js';
import { describeError } from './error-record.js';
import { ExchangeLoop, type ExchangeHost } from './exchange-loop.js';
import { Housekeeping } from './housekeeping/housekeeping.js';
import { Rescue } from './housekeeping/rescue.js';
import { housekeepingTasks, type Retention } from './housekeeping/tasks.js';
import { JobRun } from './job-run.js';
import type { Lease } from './lease.js';
import { LeaseKeeper, type LeaseKeeperEvents } from './lease-keeper.js';
import { settlementLine } from './settlement-line.js';
import { Slots } from './slots.js';

/** How long handlers may take to react to their aborted signal when the grace time is over. */
const ABORT_GRACE_MS = 300;
/** How long the last results and the farewell may take: an absent database must not hold up a stop. */
const FAREWELL_LIMIT_MS = 350;

export interface WorkerSettings extends ResolvedWorkerOptions, Retention {
  readonly listen: boolean;
  /** Of this package, shown in `workers.version`. */
  readonly version: string;
  /** Claims no more than this many jobs in all; undefined = no bound. */
  readonly budget?: number;
}

/**
 * The worker of a process: one lease, one exchange loop and one listener, whatever the number of queues and
 * kinds. new → running → draining → closed.
 */
export class Worker implements ExchangeHost {
  private state: 'new' | 'running' | 'draining' | 'closed' = 'new';
  private readonly queues: ReadonlyMap<string, number>;
  private readonly slots: Slots<JobRun>;
  /** Claimed and not settled: running, or waiting for their kind's turn. */
  private readonly held = new Set<JobRun>();
  private readonly loop: ExchangeLoop;
  private readonly doorbell: Doorbell | undefined;
  private readonly rescue: Rescue;
  private readonly housekeeping: Housekeeping;
  private readonly leases: LeaseKeeper;
  private whenNothingHeld: (() => void)[] = [];
  private whenIdle: (() => void)[] = [];
  private broughtBack: Promise<void> | undefined;
  private started: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;
  private claimedSoFar = 0;
  /** Attempts by how they ended, since the start. */
  readonly outcomes = { done: 0, retry: 0, release: 0, fail: 0, cancel: 0 };

  constructor(
    private readonly store: JobStore,
    private readonly handlers: HandlerTable,
    private readonly settings: WorkerSettings,
    private readonly logger: Logger,
  ) {
    this.queues = settings.queues ?? defaultQueues(handlers, settings.concurrency);
    this.slots = new Slots(handlers, this.queues);
    this.loop = new ExchangeLoop(store, this, settings, logger);
    this.leases = new LeaseKeeper(
      store,
      this.row(),
      settings.heartbeat,
      this.leaseEvents(),
      logger,
    );
    this.rescue = new Rescue(store, logger);
    const tasks = housekeepingTasks(store, this.rescue, settings, logger);
    this.housekeeping = new Housekeeping(store, tasks, logger);
    if (settings.listen) {
      const serves = (queue: string) => this.slots.serves(queue);
      this.doorbell = new Doorbell(store.database, serves, () => this.loop.ring(), logger);
    }
  }

  /**
   * Registers, begins to claim, and looks after what others left behind; resolves when that is done. An
   * absent database is waited for.
   */
  start(): Promise<void> {
    this.started ??= this.begin();
    return this.started;
  }

  /** Resolves when a claim found nothing and nothing runs, or when the budget is used up and nothing runs. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.whenIdle.push(resolve);
      this.loop.ring();
    });
  }

  /** The queues that are served. */
  get queueNames(): string[] {
    return [...this.queues.keys()];
  }

  /** Jobs claimed since the start. */
  get claims(): number {
    return this.claimedSoFar;
  }

  /**
   * Claims no more, lets jobs run for the grace time, then aborts them, hands back what is left and says
   * farewell. Bounded, whatever handlers and the database do; every call gets the same promise.
   */
  stop(): Promise<void> {
    this.stopped ??= this.drain();
    return this.stopped;
  }

  private async begin(): Promise<void> {
    if (this.state !== 'new') return;
    this.state = 'running';
    this.loop.start();
    this.doorbell?.start();
    await this.leases.begin();
    if (this.state !== 'running') return;
    this.housekeeping.start();
    await this.rescue.atStart();
    await this.broughtBack;
  }

  private async drain(): Promise<void> {
    this.state = 'draining';
    const helpers = Promise.all([this.started, this.housekeeping.stop(), this.doorbell?.stop()]);
    if (this.started) {
      for (const run of this.slots.drainWaiting()) this.settleUnstarted(run);
      if (this.held.size > 0) {
        this.logger.log(
          `Stopping: ${this.held.size} running jobs have ${this.settings.shutdownGrace} ms to end`,
        );
      }
      const graceEnd = performance.now() + this.settings.shutdownGrace;
      await this.untilNothingHeld(this.settings.shutdownGrace);
      this.interrupt(
        this.held,
        'SHUTTING_DOWN',
        'The process is stopping and the grace time is over',
      );
      await this.untilNothingHeld(ABORT_GRACE_MS);
      for (const run of this.held) run.abandon();
      // A job has ended when its result is stored: that is what the grace is for, too.
      await bounded(this.loop.flushed(), this.loop.isFailing ? 0 : graceEnd - performance.now());
      await bounded(this.loop.stop());
      const unsettled = (workerId: string) => this.loop.outbox.jobIds(workerId);
      await bounded(this.leases.retire(unsettled, FAREWELL_LIMIT_MS));
    }
    await bounded(helpers);
    this.state = 'closed';
  }

  // --- what the exchange loop asks and tells

  currentLease(): Lease | undefined {
    return this.leases.current;
  }

  lanes(): Lane[] {
    if (this.state !== 'running' || this.budget() === 0) return [];
    return this.slots.lanes();
  }

  budget(): number | undefined {
    const { budget } = this.settings;
    return budget === undefined ? undefined : budget - this.claimedSoFar;
  }

  heldJobs(workerId: string): string[] {
    return [...this.held].filter((run) => run.workerId === workerId).map((run) => run.job.id);
  }

  claimed(job: ClaimedJob, workerId: string): void {
    const handler = this.handlers.get(job.kind);
    if (handler === undefined) throw new TypeError(`There is no handler of ${job.kind} here`);
    const run = new JobRun(job, handler, workerId);
    this.claimedSoFar += 1;
    this.held.add(run);
    // Claimed by an exchange that was on its way when the stop began?
    if (this.state !== 'running') this.settleUnstarted(run);
    else if (this.slots.take(run)) void this.run(run);
  }

  lostJob(id: string): void {
    // Its run has ended. A run of the same id that is held now belongs to a newer claim.
    this.logger.warn(`Job ${id} is not this worker's any more: nothing was stored of its attempt`);
  }

  exchanged(found: number): void {
    if (found > 0 || this.held.size > 0 || this.loop.outbox.size > 0) return;
    for (const resolve of this.whenIdle.splice(0)) resolve();
  }

  missingDay(): void {
    void this.housekeeping.now('history');
  }

  // --- attempts

  private async run(run: JobRun): Promise<void> {
    const { settlement, backoffFault } = await run.run();
    // While the run is held, so that its signal is aborted too: what it began may still be going on.
    this.leases.current?.loseIfOver();
    if (backoffFault !== undefined) {
      const { message } = describeError(backoffFault);
      this.logger.error(
        `The backoff of ${run.handler.origin} failed (${message}): the default is used`,
      );
    }
    this.outcomes[settlement.action] += 1;
    const line = settlementLine(run.job, settlement);
    if (line) this.logger[line.level](line.text);
    const next = this.slots.release(run);
    if (next && this.state === 'running') void this.run(next);
    this.settle(run, settlement);
  }

  private settleUnstarted(run: JobRun): void {
    this.settle(run, { id: run.job.id, leaseNo: run.job.leaseNo, action: 'release' });
  }

  private settle(run: JobRun, settlement: Settlement): void {
    this.held.delete(run);
    this.loop.settle(run.workerId, settlement);
    if (this.held.size === 0) for (const resolve of this.whenNothingHeld.splice(0)) resolve();
  }

  private interrupt(runs: Iterable<JobRun>, code: PgQueueErrorCode, why: string): void {
    for (const run of runs)
      run.interrupt(new PgQueueError(code, `${why}: stop working on job ${run.job.id}.`));
  }

  private async untilNothingHeld(limit: number): Promise<void> {
    if (this.held.size === 0) return;
    await new Promise<void>((resolve) => {
      const stopTimer = startTimer(limit, resolve);
      this.whenNothingHeld.push(() => {
        stopTimer();
        resolve();
      });
    });
  }

  // --- lives

  private row(): Omit<WorkerRow, 'id'> {
    const { name, version, lease } = this.settings;
    const queues = this.queueNames;
    const kinds = [...this.handlers.keys()];
    return { name, host: hostname(), pid: process.pid, version, queues, kinds, lease };
  }

  private leaseEvents(): LeaseKeeperEvents {
    return {
      begun: () => {
        this.loop.resume();
        // Between two lives nobody may have handled its kinds, and their jobs were set aside.
        this.broughtBack = this.housekeeping.now('handlers');
      },
      lost: (lease) => this.leaseLost(lease),
      overdue: (workerIds) => void this.rescue.from(workerIds),
    };
  }

  private leaseLost(lease: Lease): void {
    this.logger.warn(
      `Worker ${lease.workerId} lost its lease; its jobs are told to stop, and it starts again`,
    );
    for (const run of this.slots.drainWaiting()) this.settleUnstarted(run);
    const runs = [...this.held].filter((run) => run.workerId === lease.workerId);
    this.interrupt(runs, 'LEASE_LOST', 'The lease was lost');
  }
}

function defaultQueues(handlers: HandlerTable, concurrency: number): Map<string, number> {
  const names = [DEFAULTS.queue, ...[...handlers.values()].map(({ queue }) => queue)];
  return new Map(names.map((name) => [name, concurrency]));
}

/** The farewell of a worker must not wait for a database that is gone; whatever failed, others put right. */
async function bounded(step: Promise<unknown>, limit = 0): Promise<void> {
  await within(
    Math.max(FAREWELL_LIMIT_MS, limit),
    step,
    () => new Error('The step took too long'),
  ).catch(() => {});
}
