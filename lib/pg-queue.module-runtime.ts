import { Logger } from '@nestjs/common';
import { reconnectDelay } from './contracts/delay.js';
import { checkedDrain } from './contracts/drain-options.js';
import { PgQueueError } from './contracts/errors.js';
import type { HandlerTable } from './contracts/handler.js';
import type { JobEventListener } from './contracts/job-events.js';
import type {
  PgQueueOptions,
  ResolvedOptions,
  ResolvedWorkerOptions,
} from './contracts/options.js';
import type { DrainOptions, DrainResult } from './contracts/queue.js';
import { resolveOptions, resolveWorkerOptions } from './contracts/resolve-options.js';
import { startTimer } from './contracts/timer.js';
import { DEFAULT_INSTANCE } from './contracts/tokens.js';
import { VERSION } from './contracts/version.js';
import { JobEvents } from './events/job-events.js';
import { QueueService } from './queue/queue.service.js';
import { declaredSchedules } from './queue/schedule-draft.js';
import { Database } from './store/database.js';
import { isConnectionUnusable } from './store/errors.js';
import { JobStore } from './store/job-store.js';
import type { ScheduleRow } from './store/statements/schedules.js';
import { checkSchema, migrate } from './store/migrator.js';
import { drain } from './worker/drain.js';
import { describeError } from './worker/error-record.js';
import { isRetryable } from './worker/retry-policy.js';
import { Worker } from './worker/worker.js';
import type { WorkerSettings } from './worker/worker-settings.js';

/** A database that is being started or has no connection free is waited for this long at start. */
const BOOT_PATIENCE_MS = 15_000;
/** By then `main.ts` has called `enableShutdownHooks`, if it does. */
const HOOKS_CHECK_MS = 3_000;

/** One queue instance, from its options to its end: what the module's hooks call, in this order. */
export class QueueRuntime {
  readonly service: QueueService;
  private readonly options: ResolvedOptions;
  private readonly database: Database;
  private readonly store: JobStore;
  private readonly logger: Logger;
  private readonly events: JobEvents;
  private handlers: HandlerTable = new Map();
  private listeners: readonly JobEventListener[] = [];
  private schedules: readonly ScheduleRow[] = [];
  private worker: Worker | undefined;
  private stopHooksCheck: () => void = () => {};

  constructor(
    readonly name: string,
    options: PgQueueOptions,
  ) {
    this.logger = new Logger(name === DEFAULT_INSTANCE ? 'PgQueue' : `PgQueue ${name}`);
    this.options = resolveOptions(options);
    this.database = new Database(this.options);
    this.store = new JobStore(this.database);
    this.events = new JobEvents({
      getJobs: async (ids) => (await this.store.getJobs(ids)).map(({ job }) => job),
      fault: (what, error) => {
        const { message, stack } = describeError(error);
        this.logger.error(`${what} failed: ${message}`, stack);
      },
    });
    this.service = new QueueService({
      events: this.events,
      store: this.store,
      defaultsOf: (kind) => this.handlers.get(kind),
      drain: (bounds) => this.drain(bounds),
      schedulesChanged: () => this.worker?.schedulesChanged(),
    });
  }

  /** What handlers get that don't say it themselves. */
  get handlerDefaults(): { keepDone: boolean; retryable: (error: unknown) => boolean } {
    const { keepDone, retryable } = this.options;
    return { keepDone: keepDone !== false, retryable: retryable ?? isRetryable };
  }

  /** Before any other module is initialised: from then on enqueue works, everywhere. */
  async prepare(handlers: HandlerTable, listeners: readonly JobEventListener[]): Promise<void> {
    this.handlers = handlers;
    this.listeners = listeners;
    try {
      this.schedules = declaredSchedules(handlers);
      await this.prepareSchema();
      await this.declareLimits();
    } catch (error) {
      await this.database.close();
      throw error;
    }
  }

  /** After every bootstrap hook. Does not wait for the database: the worker does. */
  startWorker(): void {
    this.events.listen(this.listeners);
    const { worker } = this.options;
    if (worker === false) return this.logger.log('This process enqueues only (`worker: false`)');
    if (this.handlers.size === 0)
      return this.logger.log('There are no job handlers: nothing to work on');
    const settings = { ...this.workerSettings(worker), schedules: this.schedules };
    this.worker = new Worker(this.store, this.handlers, settings, this.logger, this.events);
    this.logger.log(
      `Working on ${this.handlers.size} kinds in the queues ${this.worker.queueNames.join(', ')} (schema ${this.options.schema})`,
    );
    if (!this.options.listen)
      this.logger.log(`Polling every ${worker.pollInterval} ms, without a listener`);
    this.warnOfFewConnections(worker);
    void this.worker.start();
    this.stopHooksCheck = startTimer(HOOKS_CHECK_MS, () => this.warnWithoutShutdownHooks());
  }

  /** Before any other module is destroyed: running jobs still find everything they use. Never rejects. */
  async stopWorker(): Promise<void> {
    this.stopHooksCheck();
    try {
      await this.worker?.stop();
    } catch (error) {
      this.logger.error(`The worker did not stop cleanly: ${describeError(error).message}`);
    }
  }

  /** After every other module was shut down: enqueue works until here. */
  async close(): Promise<void> {
    this.events.close();
    await this.database.close();
  }

  private async prepareSchema(): Promise<void> {
    const { migrate: mode } = this.options;
    if (mode === false) return;
    await this.patiently(() =>
      mode === 'auto' ? migrate(this.database) : checkSchema(this.database),
    );
    if (mode === 'auto') {
      await this.store.makeDaysAhead().catch((error: unknown) => {
        // History goes to the overflow table until the housekeeping succeeds.
        this.logger.warn(`The history's days could not be made: ${describeError(error).message}`);
      });
    }
  }

  /** Before the first claim, which they hold for. */
  private async declareLimits(): Promise<void> {
    const limits = [
      ...this.options.limits,
      ...[...this.handlers.values()].flatMap((h) => h.limits),
    ];
    const names = limits.map(({ name }) => name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) {
      throw new PgQueueError(
        'INVALID_OPTION',
        `Two limits are called '${twice}'. Give one of them another \`name\`.`,
      );
    }
    for (const limit of limits) {
      await this.patiently(() => this.store.setLimit(limit, { declared: true }));
    }
  }

  private async patiently(step: () => Promise<void>): Promise<void> {
    const patience = performance.now() + BOOT_PATIENCE_MS;
    for (let failures = 1; ; failures++) {
      try {
        return await step();
      } catch (error) {
        const delay = reconnectDelay(failures);
        const isFinal = !isConnectionUnusable(error) || error instanceof PgQueueError;
        if (isFinal || performance.now() + delay > patience) throw error;
        if (failures === 1) {
          this.logger.warn(
            `The database can't be reached (${describeError(error).message}); trying again`,
          );
        }
        await new Promise<void>((resolve) => void startTimer(delay, resolve));
      }
    }
  }

  private drain(options: DrainOptions): Promise<DrainResult> {
    const { queues, ...bounds } = checkedDrain(options);
    const settings = this.workerSettings(this.options.worker || resolveWorkerOptions());
    const slots = (queue: string) => settings.queues?.get(queue) ?? settings.concurrency;
    const served = queues && new Map(queues.map((queue) => [queue, slots(queue)]));
    const own = { ...settings, ...(served && { queues: served }) };
    return drain(this.store, this.handlers, own, bounds, this.logger, this.events);
  }

  private workerSettings(worker: ResolvedWorkerOptions): WorkerSettings {
    const { keepDone, keepFailed, listen } = this.options;
    return { ...worker, keepDone, keepFailed, listen: listen !== undefined, version: VERSION };
  }

  /** A handler that runs in a transaction holds one of the connections that requests enqueue on. */
  private warnOfFewConnections({ concurrency }: ResolvedWorkerOptions): void {
    const { pool, maxConnections } = this.options;
    const slots = [...this.handlers.values()]
      .filter(({ transactional }) => transactional)
      .reduce((sum, handler) => sum + (handler.concurrency ?? concurrency), 0);
    if (pool !== undefined || slots < maxConnections) return;
    this.logger.warn(
      `Handlers with \`transactional: true\` can hold ${slots} connections at once, but \`maxConnections\` is ${maxConnections}: jobs and enqueues will wait for one. Raise it above ${slots}, or give those handlers a \`concurrency\`.`,
    );
  }

  private warnWithoutShutdownHooks(): void {
    if (process.listenerCount('SIGTERM') > 0) return;
    this.logger.warn(
      'Nothing listens for SIGTERM: a deploy ends this process in the middle of its jobs, and they run again after the lease. Call app.enableShutdownHooks() in main.ts.',
    );
  }
}
