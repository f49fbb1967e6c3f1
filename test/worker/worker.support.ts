import { Logger } from '@nestjs/common';
import type { HandlerTable, RegisteredHandler } from '../../lib/contracts/handler.js';
import type { JobEventSink } from '../../lib/contracts/job-events.js';
import type { JobContext } from '../../lib/contracts/job.js';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { Database } from '../../lib/store/database.js';
import { JobStore } from '../../lib/store/job-store.js';
import { Worker } from '../../lib/worker/worker.js';
import type { WorkerSettings } from '../../lib/worker/worker-settings.js';
import { eventually } from '../support/eventually.js';
import type { Session } from '../support/store.js';

const DAY = 86_400_000;

const SETTINGS: WorkerSettings = {
  name: 'w',
  concurrency: 10,
  queues: undefined,
  lease: 20_000,
  heartbeat: 5_000,
  pollInterval: 100,
  shutdownGrace: 200,
  listen: false,
  keepDone: 7 * DAY,
  keepFailed: 7 * DAY,
  version: 'test',
};

/** A handler as discovery would make it. */
export function handler(
  kind: string,
  run: (job: JobContext) => Promise<unknown>,
  settings: Partial<RegisteredHandler> = {},
): RegisteredHandler {
  return {
    kind,
    queue: 'default',
    concurrency: undefined,
    maxAttempts: 5,
    backoff: { type: 'fixed', delay: 50 },
    timeout: undefined,
    keepDone: true,
    retryable: () => true,
    limits: [],
    origin: `Test.${kind}`,
    run,
    ...settings,
  };
}

/** A logger whose lines can be read. */
export class Lines extends Logger {
  readonly lines: string[] = [];

  override log(message: unknown): void {
    this.lines.push(String(message));
  }

  override warn(message: unknown): void {
    this.log(message);
  }

  override error(message: unknown): void {
    this.log(message);
  }

  override debug(): void {}

  matching(pattern: RegExp): string[] {
    return this.lines.filter((line) => pattern.test(line));
  }
}

/** A worker on connections of its own, with what it logged. */
export class TestWorker {
  readonly log = new Lines();
  readonly worker: Worker;
  private readonly database: Database;

  constructor(
    where: { readonly url: string; readonly schema: string },
    handlers: readonly RegisteredHandler[],
    settings: Partial<WorkerSettings> = {},
    events?: JobEventSink,
  ) {
    const options = { connectionString: where.url, schema: where.schema };
    this.database = new Database(resolveOptions(options));
    const table: HandlerTable = new Map(handlers.map((entry) => [entry.kind, entry]));
    const all = { ...SETTINGS, ...settings };
    this.worker = new Worker(new JobStore(this.database), table, all, this.log, events);
  }

  start(): Promise<void> {
    return this.worker.start();
  }

  async stop(): Promise<void> {
    await this.worker.stop();
    await this.database.close();
  }
}

/** Resolves when the jobs stand like this, in the order of their ids. */
export async function untilJobs(
  session: Session,
  ids: readonly string[],
  expected: object | readonly object[],
): Promise<void> {
  await eventually(async () => {
    const rows = await session.rows(
      `select id, status, attempts, last_error, locked_by from pgqueue.all_jobs
        where id = any ($1) order by id`,
      [ids],
    );
    const each = Array.isArray(expected) ? expected : ids.map(() => expected);
    expect(rows).toMatchObject(each);
  });
}
