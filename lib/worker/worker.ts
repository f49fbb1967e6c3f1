import type { Logger } from '@nestjs/common';
import type { HandlerTable } from '../contracts/handler.js';
import { NO_EVENTS, type JobEventSink } from '../contracts/job-events.js';
import type { JobStore } from '../store/job-store.js';
import type { ClaimedJob, Lane } from '../store/statements/exchange.js';
import type { QueueSettings } from '../store/statements/queues.js';
import { AttemptEvents } from './attempt-events.js';
import { CancelWatch } from './cancel-watch.js';
import { Doorbell } from './doorbell.js';
import type { ExchangeHost, Turn } from './exchange-host.js';
import { ExchangeLoop } from './exchange-loop.js';
import { bounded, FAREWELL_LIMIT_MS } from './farewell.js';
import { HeldJobs, type HeldJobsEvents } from './held-jobs.js';
import { Housekeeping } from './housekeeping/housekeeping.js';
import { Rescue } from './housekeeping/rescue.js';
import { housekeepingTasks } from './housekeeping/tasks.js';
import { IdleWaiters } from './idle-waiters.js';
import type { Lease } from './lease.js';
import { LeaseKeeper, type LeaseKeeperEvents } from './lease-keeper.js';
import { Poll } from './poll.js';
import { ProgressWriter } from './progress-writer.js';
import { SettingsWatch } from './settings-watch.js';
import { Scheduler } from './scheduler.js';
import { defaultQueues, workerRow, type WorkerSettings } from './worker-settings.js';

/** How long handlers may take to react to their aborted signal when the grace time is over. */
const ABORT_GRACE_MS = 300;
/** How often to look for requests to cancel where no notification can tell of them. */
const CANCEL_POLL_MS = 1_000;
/** Who listens hears of changed settings at once, so it asks this many times less often than it polls. */
const LISTENED_POLLS = 10;

/**
 * The worker of a process: one lease, one exchange loop and one listener, whatever the number of queues and
 * kinds. new → running → draining → closed.
 */
export class Worker implements ExchangeHost {
  private state: 'new' | 'running' | 'draining' | 'closed' = 'new';
  private readonly queues: ReadonlyMap<string, number>;
  readonly attempts: AttemptEvents;
  private readonly jobs: HeldJobs;
  private readonly loop: ExchangeLoop;
  private readonly doorbell: Doorbell | undefined;
  private readonly scheduler: Scheduler | undefined;
  private readonly poll: Poll;
  private readonly progress: ProgressWriter;
  private readonly cancels: CancelWatch;
  private readonly rescue: Rescue;
  private readonly housekeeping: Housekeeping;
  private readonly leases: LeaseKeeper;
  private readonly watch: SettingsWatch;
  private readonly idleWaiters = new IdleWaiters();
  private broughtBack: Promise<void> | undefined;
  private started: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;

  constructor(
    private readonly store: JobStore,
    private readonly handlers: HandlerTable,
    private readonly settings: WorkerSettings,
    private readonly logger: Logger,
    events: JobEventSink = NO_EVENTS,
  ) {
    this.attempts = new AttemptEvents(events);
    this.queues = settings.queues ?? defaultQueues(handlers, settings.concurrency);
    this.progress = new ProgressWriter(store, logger);
    const services = { store, progress: this.progress };
    this.jobs = new HeldJobs(handlers, this.queues, services, this.jobEvents(), logger);
    this.cancels = new CancelWatch(store, this.jobs, () => this.cancelPoll(), logger);
    this.poll = new Poll(settings.pollInterval);
    this.loop = new ExchangeLoop(store, this, settings, logger);
    this.leases = new LeaseKeeper(
      store,
      workerRow(settings, this.queueNames, handlers),
      settings.heartbeat,
      this.leaseEvents(),
      logger,
    );
    this.rescue = new Rescue(store, logger, (failed) => events.emitEnded(failed));
    const tasks = housekeepingTasks(store, this.rescue, settings, logger);
    this.housekeeping = new Housekeeping(store, tasks, logger);
    const every = settings.pollInterval * (settings.listen ? LISTENED_POLLS : 1);
    const told = (read: QueueSettings, isNews: boolean) => this.settingsRead(read, isNews);
    this.watch = new SettingsWatch(store, this.queueNames, every, told, logger);
    const ring = () => this.loop.ring();
    if (settings.schedules) {
      this.scheduler = new Scheduler(store, settings.schedules, ring, logger);
    }
    if (settings.listen) {
      const settingsChanged = () => this.settingsChanged();
      const cancel = (attempt: string) => void this.cancels.heard(attempt);
      const events = { ring, settingsChanged, cancel };
      this.doorbell = new Doorbell(store.database, this.queueNames, events, logger);
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
    const idle = this.idleWaiters.add();
    this.loop.ring();
    return idle;
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
    this.watch.read();
    this.loop.start();
    this.doorbell?.start();
    this.cancels.start();
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
      this.watch.stop(),
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
      const farewell = this.leases.retire(unsettled, FAREWELL_LIMIT_MS);
      await bounded(Promise.all([farewell, this.cancels.stop(), this.progress.close(), helpers]));
    } else {
      await bounded(helpers);
    }
    this.state = 'closed';
  }

  // --- what the exchange loop asks and tells

  currentLease(): Lease | undefined {
    return this.leases.current;
  }

  lanes(roundTrip: number): Lane[] {
    this.idleWaiters.ask();
    if (this.state !== 'running' || this.budget() === 0 || this.jobs.isInDoubt) return [];
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
    if (isIdle && (isFull || this.budget() === 0)) this.idleWaiters.answer();
    const pollIn = this.poll.after(found, this.doorbell?.isWaiting ?? false);
    return this.doorbell?.after(turn) ?? pollIn;
  }

  missingDay(): void {
    void this.housekeeping.now('history');
  }

  private jobEvents(): HeldJobsEvents {
    return {
      ended: () => this.leases.current?.loseIfOver(),
      doubted: () => this.watch.read(),
      started: (run) => this.attempts.started(run),
      settled: (run, settlement) => {
        this.attempts.ended(run, settlement);
        if (settlement === undefined) this.loop.completed(run.job.id);
        else this.loop.settle(run.workerId, settlement);
      },
    };
  }

  /** Of queues, kinds, limits or schedules. */
  private settingsChanged(): void {
    this.watch.read();
    this.schedulesChanged();
    void this.housekeeping.now('slots');
  }

  private settingsRead(settings: QueueSettings, haveChanged: boolean): void {
    const wasInDoubt = this.jobs.isInDoubt;
    this.jobs.apply(settings);
    if (haveChanged || wasInDoubt) this.loop.ring();
    // One process sets aside the jobs of paused kinds, or brings them back: a change makes that due at once.
    if (haveChanged) this.housekeeping.ifDue('handlers');
  }

  /** Without a listener, or when it is down: soon. */
  private cancelPoll(): number {
    const { heartbeat } = this.settings;
    return this.doorbell?.isListening ? heartbeat : Math.min(heartbeat, CANCEL_POLL_MS);
  }

  // --- lives

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
