import { randomBytes } from 'node:crypto';
import { Injectable, type ModuleMetadata, type Type } from '@nestjs/common';
import { Test, type TestingModule, type TestingModuleBuilder } from '@nestjs/testing';
import {
  JobHandler,
  PgQueueModule,
  QueueService,
  type JobContext,
  type JobHandlerOptions,
  type PgQueueOptions,
} from 'nestjs-pg-queue';
import { Pool } from 'pg';
import { forSchema } from '../../lib/store/sql.js';
import { log } from './log.js';

/** The database that the run has for all its test files. */
export const DATABASE_URL = process.env.DATABASE_URL ?? '';

/** The tests' own connections, beside those of the queue. */
export const pool = new Pool({ connectionString: DATABASE_URL, max: 12, allowExitOnIdle: true });
// Terminated backends are what some tests are about.
pool.on('error', () => {});

const schemas = new Set<string>();
const apps = new Set<TestApp>();

/** A name that no other test has. Whatever is made in it is dropped when the test ends. */
export function freshSchema(): string {
  const schema = `pgq_${randomBytes(6).toString('hex')}`;
  schemas.add(schema);
  return schema;
}

// oxlint-disable-next-line typescript/no-explicit-any -- rows are what the SQL makes them, as in pg
type Rows<Row = any> = Promise<Row[]>;

/** SQL as one writes it in psql, for the default schema; it runs in `schema`. */
export async function sqlIn(schema: string, text: string, values: unknown[] = []): Rows {
  return (await pool.query<never>(forSchema(text, schema), values)).rows;
}

/** A Nest application with a queue of its own. */
export class TestApp {
  private closed: Promise<void> | undefined;

  constructor(
    readonly module: TestingModule,
    readonly schema: string,
  ) {}

  get queue(): QueueService {
    return this.module.get(QueueService);
  }

  sql(text: string, values?: unknown[]): Rows {
    return sqlIn(this.schema, text, values);
  }

  /** The status of a job, wherever it stands; undefined if there is none. */
  async status(id: string): Promise<string | undefined> {
    const [row] = await this.sql('select status from pgqueue.all_jobs where id = $1', [id]);
    return row?.status as string | undefined;
  }

  close(): Promise<void> {
    this.closed ??= this.module.close();
    return this.closed;
  }
}

/** What a test changes of the options. */
export type TestOptions = Partial<PgQueueOptions>;

/** The queue's module in a fresh schema, or the one of `options`. */
export function queueModule(options: TestOptions = {}) {
  return PgQueueModule.forRoot({
    connectionString: DATABASE_URL,
    schema: freshSchema(),
    ...options,
  });
}

/** A compiled application that has not been initialised. It is closed when the test ends. */
export async function compileApp(
  parts: ModuleMetadata,
  options: TestOptions = {},
  change: (builder: TestingModuleBuilder) => TestingModuleBuilder = (builder) => builder,
): Promise<TestApp> {
  const schema = options.schema ?? freshSchema();
  const imports = [...(parts.imports ?? []), queueModule({ ...options, schema })];
  const builder = Test.createTestingModule({ ...parts, imports }).setLogger(log);
  const app = new TestApp(await change(builder).compile(), schema);
  apps.add(app);
  return app;
}

/** An application that runs. It is closed when the test ends. */
export async function startApp(parts: ModuleMetadata, options?: TestOptions): Promise<TestApp> {
  const app = await compileApp(parts, options);
  await app.module.init();
  return app;
}

/** An application whose only providers are these handlers. */
export function startWith(handlers: Type[], options?: TestOptions): Promise<TestApp> {
  return startApp({ providers: handlers }, options);
}

/** A provider whose one method handles the kind. */
export function on(
  kind: string,
  run: (payload: unknown, job: JobContext) => unknown,
  options: JobHandlerOptions = {},
): Type {
  @Injectable()
  class Handler {
    @JobHandler(kind, options)
    handle(payload: unknown, job: JobContext): unknown {
      return run(payload, job);
    }
  }
  return Handler;
}

/** For `afterEach`: closes what the test started, and drops its schemas. */
export async function endApps(): Promise<void> {
  for (const app of apps) await app.close();
  apps.clear();
  for (const schema of schemas) await pool.query(`drop schema if exists "${schema}" cascade`);
  schemas.clear();
  log.clear();
}
