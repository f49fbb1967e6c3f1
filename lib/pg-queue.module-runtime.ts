import { Logger } from '@nestjs/common';
import { reconnectDelay } from './contracts/delay.js';
import { parseDuration } from './contracts/duration.js';
import { PgQueueError } from './contracts/errors.js';
import type { HandlerTable } from './contracts/handler.js';
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
import { Worker, type WorkerSettings } from './worker/worker.js';

/** A database that is being started or has no connection free is waited for this long at start. */
const BOOT_PATIENCE_MS = 15_000;
const DRAIN_TIMEOUT_MS = 30_000;
/** By then `main.ts` has called `enableShutdownHooks`, if it does. */
const HOOKS_CHECK_MS = 3_000;

/** One queue instance, from its options to its end: what the module's hooks call, in this order. */
export class QueueRuntime {
  readonly service: QueueService;
  private readonly options: ResolvedOptions;
  private readonly database: Database;
  private readonly store: JobStore;
  private readonly logger: Logger;
  private handlers: HandlerTable = new Map();
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
    this.service = new QueueService({
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
  async prepare(handlers: HandlerTable): Promise<void> {
    this.handlers = handlers;
    try {
      this.schedules = declaredSchedules(handlers);
      await this.prepareSchema();
    } catch (error) {
      await this.database.close();
      throw error;
    }
  }

  /** After every bootstrap hook. Does not wait for the database: the worker does. */
  startWorker(): void {
    const { worker } = this.options;
    if (worker === false) return this.logger.log('This process enqueues only (`worker: false`)');
    if (this.handlers.size === 0)
      return this.logger.log('There are no job handlers: nothing to work on');
    const settings = { ...this.workerSettings(worker), schedules: this.schedules };
    this.worker = new Worker(this.store, this.handlers, settings, this.logger);
    this.logger.log(
      `Working on ${this.handlers.size} kinds in the queues ${this.worker.queueNames.join(', ')} (schema ${this.options.schema})`,
    );
    if (!this.options.listen)
      this.logger.log(`Polling every ${worker.pollInterval} ms, without a listener`);
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
    const { max, timeout = DRAIN_TIMEOUT_MS } = options;
    if (max !== undefined && !(Number.isInteger(max) && max >= 1)) {
      throw new PgQueueError(
        'INVALID_ARGUMENT',
        '`max` of drain must be a whole number of at least 1.',
      );
    }
    const milliseconds = parseDuration(timeout);
    if (milliseconds === undefined) {
      throw new PgQueueError(
        'INVALID_ARGUMENT',
        "`timeout` of drain must be milliseconds or a string such as '30s'.",
      );
    }
    const settings = this.workerSettings(this.options.worker || resolveWorkerOptions());
    return drain(this.store, this.handlers, settings, { max, timeout: milliseconds }, this.logger);
  }

  private workerSettings(worker: ResolvedWorkerOptions): WorkerSettings {
    const { keepDone, keepFailed, listen } = this.options;
    return { ...worker, keepDone, keepFailed, listen: listen !== undefined, version: VERSION };
  }

  private warnWithoutShutdownHooks(): void {
    if (process.listenerCount('SIGTERM') > 0) return;
    this.logger.warn(
      'Nothing listens for SIGTERM: a deploy ends this process in the middle of its jobs, and they run again after the lease. Call app.enableShutdownHooks() in main.ts.',
    );
  }
}
