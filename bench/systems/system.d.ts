import type { ClientBase } from 'pg';

/** What a drain, a stream or a single job asks of a worker: an adapter uses what its documentation gives for it. */
export type Profile = 'noop' | 'wait' | 'latency' | 'steady';

export type Store = 'postgres' | 'redis-everysec' | 'redis-always';

/**
 * One contestant. It runs inside child processes of the benchmark; everything is awaited before the clock
 * starts or after it has stopped. An adapter file exports an array of these by default.
 */
export interface System {
  /** `pg-queue`, `pg-boss`, … */
  readonly name: string;
  readonly store: Store;
  /** Version and the settings used, for the report. */
  describe(): { version: string; settings: string };
  /** Makes an empty schema or queue, once a measurement. `kinds`: the names of all job kinds that it will see. */
  prepare(url: string, kinds: string[]): Promise<void>;
  /** A producer with its connections ready. */
  produce(url: string): Promise<Producer>;
  /** A worker; resolves when it listens and polls. */
  work(url: string, options: WorkOptions): Promise<{ stop(): Promise<void> }>;
  /** Due jobs that are not settled durably yet, running ones included. Asked often at the end of a drain. */
  pending(url: string): Promise<number>;
  /** Stores n finished jobs as the system itself stores them. */
  fillFinished?(url: string, n: number): Promise<void>;
  /** Stores n jobs of the first kind that are due in a day or later. */
  fillFuture?(url: string, n: number): Promise<void>;
  /** Stores n jobs as held by a worker that lives; one is at work. */
  fillRunning?(url: string, n: number): Promise<void>;
  /** Jobs of one key of a limit that has no room, put aside already. */
  fillSaturated?(url: string, n: number): Promise<void>;
  /** Recognises the statement that keeps an idle worker alive, in `pg_stat_statements`. */
  readonly heartbeat?: RegExp;
}

export interface WorkOptions {
  readonly kinds: string[];
  readonly profile: Profile;
  /** Called once a job with its payload. A promise is to be awaited before the job is settled. */
  // oxlint-disable-next-line typescript/no-explicit-any -- payloads are whatever a test enqueued
  readonly handler: (payload: any) => Promise<void> | void;
}

export interface Producer {
  /** Resolves when the job is durable, as far as the store goes. */
  enqueue(kind: string, payload: object): Promise<void>;
  /** As many calls as is best for the system; the lists have up to 50,000 payloads. */
  enqueueMany(kind: string, payloads: object[]): Promise<void>;
  /** Enqueues on the caller's client inside its open transaction; undefined where the system can't. */
  enqueueIn?(client: ClientBase, kind: string, payload: object): Promise<void>;
  close(): Promise<void>;
}
