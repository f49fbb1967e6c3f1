import type { BackoffOptions, RetryableRule } from './backoff.js';
import type { Duration } from './duration.js';
import type { JobContext } from './job.js';
import type { LimitOptions, LimitRecord } from './limits.js';
import type { JobScheduleOptions, ScheduleTimes } from './schedule.js';

/** Whether a job is worth being run now. Called with the payload as it was enqueued. */
export type StillNeededRule = (payload: unknown, job: JobContext) => boolean | Promise<boolean>;

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
  /**
   * Runs the whole handler in a transaction, `job.tx`, that also completes the job: see `JobContext.transaction`.
   * Each running job holds a connection of the callers' pool meanwhile. Default false.
   */
  readonly transactional?: boolean | undefined;
  /**
   * Asked before the handler is called, within its `timeout`: `false` cancels the job instead. It has no `this`;
   * a handler that needs its services for the question throws `CancelJob`. A throw is a failed attempt.
   */
  readonly stillNeeded?: StillNeededRule | undefined;
  /** `false` keeps no history of this kind's finished jobs. Default: as the module's `keepDone` says. */
  readonly keepDone?: boolean | undefined;
  /** Which errors are worth another attempt. Default: as the module's `retryable` says. */
  readonly retryable?: RetryableRule | undefined;
  /** The named instance that this handler belongs to. Default: the one without a name. */
  readonly instance?: string | undefined;
  /**
   * How many jobs of this kind run and how often they begin, over all workers: one limit, or several that hold
   * together. A name that is not given is the kind, and `by`.
   */
  readonly limits?: HandlerLimit | readonly HandlerLimit[] | undefined;
  /** Whether global guards, interceptors, pipes and filters run too. Default false: they are written for HTTP. */
  readonly globalEnhancers?: boolean | undefined;
}

/** A limit of one kind. */
export type HandlerLimit = LimitOptions & { readonly name?: string | undefined };

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
  readonly limits: readonly LimitRecord[];
  /** Whether it runs in a transaction that also completes the job. */
  readonly transactional?: boolean | undefined;
  /** Undefined = every job is. */
  readonly stillNeeded?: StillNeededRule | undefined;
  /** What `@JobSchedule` said of it, unchecked. */
  readonly schedules?: readonly DeclaredSchedule[];
  /** `Class.method`, for messages. */
  readonly origin: string;
  /** Runs the method with everything that Nest binds to it; resolves to what it returned. */
  readonly run: (job: JobContext) => Promise<unknown>;
}

/** Kind → handler, of one queue instance. Filled once while the application starts. */
export type HandlerTable = ReadonlyMap<string, RegisteredHandler>;
