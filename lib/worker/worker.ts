import { hostname } from 'node:os';
import type { Logger } from '@nestjs/common';
import type { HandlerTable } from '../contracts/handler.js';
import type { ResolvedWorkerOptions } from '../contracts/options.js';
import { DEFAULTS } from '../contracts/resolve-options.js';
import { within } from '../contracts/within.js';
import type { JobStore } from '../store/job-store.js';
import type { ClaimedJob, Lane } from '../store/statements/exchange.js';
import type { ScheduleRow } from '../store/statements/schedules.js';
import type { WorkerRow } from '../store/statements/workers.js';
import { Doorbell } from './doorbell.js';
import type { ExchangeHost, Turn } from './exchange-host.js';
import { ExchangeLoop } from './exchange-loop.js';
import { HeldJobs, type HeldJobsEvents } from './held-jobs.js';
import { Housekeeping } from './housekeeping/housekeeping.js';
import { Rescue } from './housekeeping/rescue.js';
import { housekeepingTasks, type Retention } from './housekeeping/tasks.js';
import type { Lease } from './lease.js';
import { LeaseKeeper, type LeaseKeeperEvents } from './lease-keeper.js';
import { Poll } from './poll.js';
import { Scheduler } from './scheduler.js';

/** How long handlers may take to react to their aborted signal when the grace time is over. */
const ABORT_GRACE_MS = 300;
/** How long the last results and the farewell may take: an absent database must not hold up a stop. */
const FAREWELL_LIMIT_MS = 350;

export interface WorkerSettings extends ResolvedWorkerOptions, Retention {
  readonly listen: boolean;
  /** Of this package, shown in `workers.version`. */
  readonly version: string;
  /** What this application's code declares; undefined = this worker fires no schedules. */
  readonly schedules?: readonly ScheduleRow[];
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
  private readonly jobs: HeldJobs;
  private readonly loop: ExchangeLoop;
  private readonly doorbell: Doorbell | undefined;
  private readonly scheduler: Scheduler | undefined;
  private readonly poll: Poll;
  private readonly rescue: Rescue;
  private readonly housekeeping: Housekeeping;
  private readonly leases: LeaseKeeper;
  private whenIdle: (() => void)[] = [];
  /** Those who wait for it since before the exchange that is on its way: others want a later look. */
  private askedForIdle = 0;
  private broughtBack: Promise<void> | undefined;
  private started: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;

  constructor(
    private readonly store: JobStore,
    private readonly handlers: HandlerTable,
    private readonly settings: WorkerSettings,
    private readonly logger: Logger,
  ) {
    this.queues = settings.queues ?? defaultQueues(handlers, settings.concurrency);
    this.jobs = new HeldJobs(handlers, this.queues, this.jobEvents(), logger);
    this.poll = new Poll(settings.pollInterval);
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
    const ring = () => this.loop.ring();
    if (settings.schedules) {
      this.scheduler = new Scheduler(store, settings.schedules, ring, logger);
    }
    if (settings.listen) {
      const changed = () => this.schedulesChanged();
      this.doorbell = new Doorbell(store.database, this.queueNames, ring, logger, changed);
    }
  }

  /**
   * Registers, begins to claim, and looks after what others left behind; resolves when that is done. An
   * absent database is waited for.
   */
  start(): Promise<void> {
    this.started ??= this.boot();
    return this.started;
  }

  /** Resolves when a claim found nothing and nothing runs, or when the budget is used up and nothing runs. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.whenIdle.push(resolve);
      this.loop.ring();
    });
  }

  /** Schedules may have changed: those that are due now are not waited for. */
  schedulesChanged(): void {
    this.scheduler?.ring();
  }

  /** The queues that are served. */
  get queueNames(): string[] {
    return [...this.queues.keys()];
  }

  /** Jobs claimed since the start. */
  get claims(): number {
    return this.jobs.claims;
  }

  /** Attempts by how they ended, since the start. */
  get outcomes(): HeldJobs['outcomes'] {
    return this.jobs.outcomes;
  }

  /**
   * Claims no more, lets jobs run for the grace time, then aborts them, hands back what is left and says
   * farewell. Bounded, whatever handlers and the database do; every call gets the same promise.
   */
  stop(): Promise<void> {
    this.stopped ??= this.drain();
    return this.stopped;
  }

  private async boot(): Promise<void> {
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
    const helpers = Promise.all([
      this.started,
      this.housekeeping.stop(),
      this.scheduler?.stop(),
      this.doorbell?.stop(),
    ]);
    if (this.started) {
      this.jobs.close();
      if (this.jobs.size > 0) {
        this.logger.log(
          `Stopping: ${this.jobs.size} running jobs have ${this.settings.shutdownGrace} ms to end`,
        );
      }
      const graceEnd = performance.now() + this.settings.shutdownGrace;
      await this.jobs.untilNone(this.settings.shutdownGrace);
      this.jobs.interrupt('SHUTTING_DOWN', 'The process is stopping and the grace time is over');
      await this.jobs.untilNone(ABORT_GRACE_MS);
      this.jobs.abandon();
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

  lanes(roundTrip: number): Lane[] {
    this.askedForIdle = this.whenIdle.length;
    if (this.state !== 'running' || this.budget() === 0) return [];
    return this.jobs.lanes(roundTrip);
  }

  budget(): number | undefined {
    const { budget } = this.settings;
    return budget === undefined ? undefined : budget - this.claims;
  }

  heldJobs(workerId: string): string[] {
    return this.jobs.ids(workerId);
  }

  claimed(job: ClaimedJob, workerId: string): void {
    this.jobs.add(job, workerId);
  }

  begin(): void {
    this.jobs.begin();
  }

  lostJob(id: string): void {
    // Its run has ended. A run of the same id that is held now belongs to a newer claim.
    this.logger.warn(`Job ${id} is not this worker's any more: nothing was stored of its attempt`);
  }

  exchanged(turn: Turn): number {
    const { found, isFull } = turn;
    this.jobs.handBackOverdue();
    const isIdle = found === 0 && this.jobs.size === 0 && this.loop.outbox.size === 0;
    if (isIdle && (isFull || this.budget() === 0)) {
      for (const resolve of this.whenIdle.splice(0, this.askedForIdle)) resolve();
      this.askedForIdle = 0;
    }
    const pollIn = this.poll.after(found, this.doorbell?.isWaiting ?? false);
    return this.doorbell?.after(turn) ?? pollIn;
  }

  missingDay(): void {
    void this.housekeeping.now('history');
  }

  private jobEvents(): HeldJobsEvents {
    return {
      ended: () => this.leases.current?.loseIfOver(),
      settled: (workerId, settlement) => this.loop.settle(workerId, settlement),
    };
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
        const { current } = this.leases;
        if (current) this.scheduler?.begin(current.workerId);
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
    this.jobs.handBackWaiting();
    this.jobs.interrupt('LEASE_LOST', 'The lease was lost', lease.workerId);
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
