import type { BackoffOptions, RetryableRule } from './backoff.js';
import type { Duration } from './duration.js';
import type { JobContext } from './job.js';
import type { JobScheduleOptions, ScheduleTimes } from './schedule.js';

/** Options of `@JobHandler`. */
export interface JobHandlerOptions {
  /** The queue that `enqueue` of this kind goes to. Default `'default'`. */
  readonly queue?: string | undefined;
  /**
   * How many jobs of this kind this process runs at once. By default they share the slots of their
   * queue (`worker.concurrency`).
   */
  readonly concurrency?: number | undefined;
  /** How often a job of this kind may be begun, the first time included. Default 5. */
  readonly maxAttempts?: number | undefined;
  /** Default: exponential from 2 s to 10 minutes, jitter 0.5. */
  readonly backoff?: BackoffOptions | undefined;
  /** How long one attempt may take before its signal is aborted and it counts as failed. Default: no limit. */
  readonly timeout?: Duration | undefined;
  /** `false` keeps no history of this kind's finished jobs. Default: as the module's `keepDone` says. */
  readonly keepDone?: boolean | undefined;
  /** Which errors are worth another attempt. Default: as the module's `retryable` says. */
  readonly retryable?: RetryableRule | undefined;
  /** The named instance that this handler belongs to. Default: the one without a name. */
  readonly instance?: string | undefined;
  /** Whether global guards, interceptors, pipes and filters run too. Default false: they are written for HTTP. */
  readonly globalEnhancers?: boolean | undefined;
}

/** One use of `@JobSchedule`, as it was given. */
export interface DeclaredSchedule {
  readonly times: ScheduleTimes;
  readonly options: JobScheduleOptions;
}

/** A handler as the worker sees it: a plain function with every setting resolved. */
export interface RegisteredHandler {
  readonly kind: string;
  readonly queue: string;
  /** Own slots of this kind in this process; undefined = it shares those of its queue. */
  readonly concurrency: number | undefined;
  readonly maxAttempts: number;
  readonly backoff: BackoffOptions;
  /** Milliseconds; undefined = no limit. */
  readonly timeout: number | undefined;
  readonly keepDone: boolean;
  readonly retryable: RetryableRule;
  /** What `@JobSchedule` said of it, unchecked. */
  readonly schedules?: readonly DeclaredSchedule[];
  /** `Class.method`, for messages. */
  readonly origin: string;
  /** Runs the method with everything that Nest binds to it; resolves to what it returned. */
  readonly run: (job: JobContext) => Promise<unknown>;
}

/** Kind → handler, of one queue instance. Filled once while the application starts. */
export type HandlerTable = ReadonlyMap<string, RegisteredHandler>;
