import type { RetryableRule } from './backoff.js';
import type { Duration } from './duration.js';
import type { Limit, LimitRecord } from './limits.js';

/** What the package needs of an existing pool; `pg.Pool` has it, of whatever version. */
export interface PoolLike {
  connect(): Promise<PoolClientLike>;
  /** What the pool was made with: the worker's own connections are made from it. */
  readonly options?: object;
}

/** A checked-out client of a {@link PoolLike}. */
export interface PoolClientLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- rows are what the SQL makes them
  query(text: string, values?: unknown[]): Promise<{ rows: any[]; rowCount: number | null }>;
  release(error?: Error | boolean): void;
}

/** What the worker of this process does. Durations are milliseconds or strings such as `'30s'`. */
export interface WorkerOptions {
  /** Shown in `workers.name`. Default: `host:pid`. */
  readonly name?: string | undefined;
  /**
   * Slots of each queue in this process: jobs of one queue that run at once. A handler with a `concurrency`
   * of its own has its slots beside these. Default 20.
   */
  readonly concurrency?: number | undefined;
  /**
   * Queues to serve, with their own slots if given. Default: `'default'` and every queue that a handler
   * names. A job in a queue that nobody serves waits.
   */
  readonly queues?:
    readonly string[] | Readonly<Record<string, { readonly concurrency?: number }>> | undefined;
  /** How long after its last sign of life a worker counts as dead and its jobs run elsewhere. Default 30 s. */
  readonly lease?: Duration | undefined;
  /** How often the lease is renewed. Default: a third of the lease. */
  readonly heartbeat?: Duration | undefined;
  /** How often to look for work that no notification announced. Default 2 s, or 500 ms without a listener. */
  readonly pollInterval?: Duration | undefined;
  /** How long running jobs may go on after the application began to close. Default 10 s. */
  readonly shutdownGrace?: Duration | undefined;
}

/** Options of `PgQueueModule.forRoot`. One of `connectionString` and `pool` is needed. */
export interface PgQueueOptions {
  /** Where the jobs live: the database of your application. */
  readonly connectionString?: string | undefined;
  /** Your own `pg.Pool`: enqueues use it, it is never closed; the worker makes connections of its own. */
  readonly pool?: PoolLike | undefined;
  /** How many connections `QueueService` may open (outside your own pool). Default 10. */
  readonly maxConnections?: number | undefined;
  /** Any identifier; it is quoted. Default `'pgqueue'`. */
  readonly schema?: string | undefined;
  /**
   * `'auto'` creates and upgrades the schema at start, `'check'` stops the start if it is not up to date,
   * `false` does neither. Default `'auto'`.
   */
  readonly migrate?: 'auto' | 'check' | false | undefined;
  /** `false`: this process enqueues only. Default `{}`: it works too. */
  readonly worker?: false | WorkerOptions | undefined;
  /**
   * Wake-up by LISTEN: `true` (default), `false` (polling only), or a direct connection string where
   * `connectionString` leads to a pooler in transaction mode, which can't LISTEN.
   */
  readonly listen?: boolean | { readonly connectionString: string } | undefined;
  /** How long finished jobs stay in `done_jobs`; `false` keeps none. Default 7 days. */
  readonly keepDone?: Duration | false | undefined;
  /** How long failed jobs stay in `failed_jobs`; `false` keeps them for ever. Default 90 days. */
  readonly keepFailed?: Duration | false | undefined;
  /**
   * Which errors are worth another attempt. Default: all but validation errors and HTTP 4xx other than
   * 408, 425 and 429.
   */
  readonly retryable?: RetryableRule | undefined;
  /** How many jobs run and how often they begin, over all workers; a handler can have its own. */
  readonly limits?: readonly Limit[] | undefined;
}

/** The options of the worker with every default filled in; durations in milliseconds. */
export interface ResolvedWorkerOptions {
  readonly name: string;
  readonly concurrency: number;
  /** undefined = the default set, see {@link WorkerOptions.queues}. */
  readonly queues: ReadonlyMap<string, number> | undefined;
  readonly lease: number;
  readonly heartbeat: number;
  readonly pollInterval: number;
  readonly shutdownGrace: number;
}

/** The options with every default filled in; durations in milliseconds. */
export interface ResolvedOptions {
  readonly connectionString: string | undefined;
  readonly pool: PoolLike | undefined;
  readonly maxConnections: number;
  readonly schema: string;
  readonly migrate: 'auto' | 'check' | false;
  readonly worker: false | ResolvedWorkerOptions;
  /** undefined = no listener. */
  readonly listen: { readonly connectionString: string | undefined } | undefined;
  readonly keepDone: number | false;
  readonly keepFailed: number | false;
  readonly retryable: RetryableRule | undefined;
  readonly limits: readonly LimitRecord[];
}
