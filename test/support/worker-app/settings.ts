/** What a test says to a process that it starts. Durations in milliseconds. */
export interface WorkerAppSettings {
  readonly url: string;
  readonly schema: string;
  /** Scripts are written for names, see {@link Script}. */
  readonly name: string;
  readonly lease?: number;
  readonly heartbeat?: number;
  readonly pollInterval?: number;
  readonly shutdownGrace?: number;
  readonly concurrency?: number;
  /** Whether the application listens for SIGTERM. Default true. */
  readonly hooks?: boolean;
}

/** What a job of the kind `scripted` does, one step after the other. */
export type Step =
  /** Blocks the event loop for that many milliseconds. */
  | readonly ['block', number]
  | readonly ['wait', number]
  /** Ends the process as it is, with this code. */
  | readonly ['exit', number]
  | readonly ['throw', string]
  /** Enqueues a job of this kind. */
  | readonly ['enqueue', string]
  /** Uses a service that closes when the application shuts down. */
  | readonly ['use journal'];

/** Steps by the name of the process that runs the job; `*` = any other. */
export type Script = Readonly<Record<string, readonly Step[]>>;

/** What a process tells, a line each. `at` is milliseconds since 1970 by a clock that no test shifts. */
export type Report = { readonly at: number } & (
  | { readonly event: 'ready' }
  | {
      readonly event: 'started';
      readonly id: string;
      readonly kind: string;
      readonly attempt: number;
    }
  | { readonly event: 'finished'; readonly id: string }
  | { readonly event: 'aborted'; readonly id: string; readonly code: string }
  | { readonly event: 'journal used' | 'journal closed' }
  | { readonly event: 'enqueued'; readonly id: string }
  | { readonly event: 'log'; readonly level: string; readonly text: string }
  | { readonly event: 'fault'; readonly text: string }
);

type Without<T> = T extends unknown ? Omit<T, 'at'> : never;

/** A {@link Report} before it is told. */
export type News = Without<Report>;

/** What a test asks of a running process. */
export interface Command {
  readonly enqueue: string;
  readonly delay?: number;
}
