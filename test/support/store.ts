import { randomBytes, randomUUID } from 'node:crypto';
import { Client, type ClientConfig, type QueryResult } from 'pg';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { Database } from '../../lib/store/database.js';
import { JobStore } from '../../lib/store/job-store.js';
import { migrate } from '../../lib/store/migrator.js';
import { forSchema, quoteIdentifier } from '../../lib/store/sql.js';
import type { JobRow } from '../../lib/store/statements/enqueue-many.js';
import { TEXT_TYPES, type Statement, type TextRow } from '../../lib/store/statement.js';
import {
  exchange as exchangeStatement,
  type ClaimedJob,
  type ExchangeRow,
  type Lane,
  type Look,
  type Progress,
  type Settlement,
} from '../../lib/store/statements/exchange.js';
import { register } from '../../lib/store/statements/workers.js';
import { eventually } from './eventually.js';

export interface StoreSettings {
  /** Default: a fresh name. */
  readonly schema?: string;
  /** Default: DATABASE_URL. */
  readonly url?: string;
  /** A database of its own, where other test files hold no snapshot and settings can be changed. */
  readonly ownDatabase?: boolean;
  /** Whether the history has its days. Default true. */
  readonly days?: boolean;
}

/** A migrated schema of a test file's own, dropped at the end. */
export interface TestStore {
  readonly schema: string;
  readonly url: string;
  readonly database: Database;
  readonly store: JobStore;
  /** For looking and arranging. Never in a transaction. */
  readonly observer: Session;
  connect(config?: ClientConfig): Promise<Session>;
  close(): Promise<void>;
}

export async function openStore(settings: StoreSettings = {}): Promise<TestStore> {
  const schema = settings.schema ?? freshName();
  const server = settings.url ?? serverUrl();
  const url = settings.ownDatabase ? await createDatabase(server) : server;
  const database = new Database(resolveOptions({ connectionString: url, schema }));
  const store = new JobStore(database);
  await migrate(database);
  if (settings.days ?? true) await store.makeDaysAhead();

  const sessions: Session[] = [];
  const connect = async (config: ClientConfig = {}): Promise<Session> => {
    const session = await Session.open({ connectionString: url, ...config }, schema);
    sessions.push(session);
    return session;
  };
  const observer = await connect();
  return {
    schema,
    url,
    database,
    store,
    observer,
    connect,
    close: async () => {
      await Promise.all(sessions.map((session) => session.close()));
      await database.close();
      await once(server, async (client) => {
        if (settings.ownDatabase)
          await client.query(`drop database ${databaseOf(url)} with (force)`);
        else await client.query(`drop schema ${quoteIdentifier(schema)} cascade`);
      });
    },
  };
}

/** One connection that a test drives statement by statement. */
export class Session {
  readonly notices: string[] = [];

  private constructor(
    readonly client: Client,
    readonly schema: string,
    readonly pid: number,
  ) {}

  static async open(config: ClientConfig, schema: string): Promise<Session> {
    const client = new Client(config);
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const session = new Session(client, schema, rows[0]?.pid ?? 0);
    client.on('notice', ({ message }) => session.notices.push(message ?? ''));
    return session;
  }

  /** SQL written for the schema `pgqueue`, as everywhere in the package. */
  query<Row extends object>(text: string, values: unknown[] = []): Promise<QueryResult<Row>> {
    return this.client.query<Row>(forSchema(text, this.schema), values);
  }

  async rows<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.query<Row>(text, values)).rows;
  }

  /** The only column of the only row. */
  async value<T>(text: string, values: unknown[] = []): Promise<T> {
    const [row] = await this.rows<Record<string, T>>(text, values);
    return Object.values(row ?? {})[0] as T;
  }

  /** A statement of the package, on this connection. */
  async run<Params, Row>(statement: Statement<Params, Row>, params: Params): Promise<Row[]> {
    const query = {
      text: forSchema(statement.text, this.schema),
      values: statement.values(params),
      types: TEXT_TYPES,
    };
    const { rows } = await this.client.query<TextRow>(query);
    return rows.map((row) => statement.row(row));
  }

  begin(): Promise<unknown> {
    return this.client.query('begin');
  }

  commit(): Promise<unknown> {
    return this.client.query('commit');
  }

  rollback(): Promise<unknown> {
    return this.client.query('rollback');
  }

  close(): Promise<void> {
    return this.client.end();
  }
}

/** Resolves when the session's statement waits for a lock that somebody holds. */
export async function untilWaiting(observer: Session, waiting: Session): Promise<void> {
  await eventually(async () => {
    const type = await observer.value<string | null>(
      'select wait_event_type from pg_stat_activity where pid = $1',
      [waiting.pid],
    );
    expect(type).toBe('Lock');
  });
}

/** What runs a statement of the package: a session, or the store's own connections. */
export interface Runner {
  run<Params, Row>(statement: Statement<Params, Row>, params: Params): Promise<Row[]>;
}

/** A worker that has just registered, with a lease of an hour unless told otherwise. */
export async function startWorker(
  runner: Runner,
  { kinds = ['k'], queues = ['default'], lease = 3_600_000 } = {},
): Promise<string> {
  const id = randomUUID();
  const self = { name: 'w', host: 'h', pid: 1, version: 'test' };
  await runner.run(register, { id, ...self, queues, kinds, lease });
  return id;
}

/** From now on the worker can be declared dead. */
export async function endLease(session: Session, worker: string): Promise<void> {
  await session.query(
    `update pgqueue.workers set lease_until = clock_timestamp() - interval '1 s' where id = $1`,
    [worker],
  );
}

export interface Exchange {
  readonly worker: string;
  readonly epoch?: number;
  readonly settlements?: readonly Settlement[];
  /** How many jobs of kind `k` in the queue `default`. Default 0. */
  readonly want?: number;
  readonly lanes?: readonly Lane[];
  /** In place of `lanes`: where each lane begins and ends, too. */
  readonly looks?: readonly Look[];
  readonly dueAfter?: string | undefined;
  readonly overflow?: boolean;
  readonly held?: readonly string[];
  readonly freed?: readonly string[];
}

export interface Exchanged {
  readonly worker: string;
  readonly dueIn: number | undefined;
  /** By id; settlements that were stored are not in it. */
  readonly answers: Record<string, string>;
  readonly jobs: readonly ClaimedJob[];
  readonly spent: readonly string[];
  readonly progress: Progress | undefined;
}

export async function exchange(runner: Runner, request: Exchange): Promise<Exchanged> {
  const { worker, epoch = 0, settlements = [], want = 0, overflow = false, dueAfter } = request;
  const { held, freed } = request;
  const usual: Lane[] = want > 0 ? [{ queue: 'default', only: ['k'], want }] : [];
  const lanes = request.lanes ?? usual;
  const looks = request.looks ?? lanes.map((look, lane) => ({ ...look, lane }));
  const sent = { worker, epoch, settlements, looks, dueAfter, overflow, held, freed };
  return sortAnswers(await runner.run(exchangeStatement, sent));
}

function sortAnswers(rows: readonly ExchangeRow[]): Exchanged {
  const answers: Record<string, string> = {};
  const jobs: ClaimedJob[] = [];
  const spent: string[] = [];
  let worker = '';
  let dueIn: number | undefined;
  let progress: Progress | undefined;
  for (const row of rows) {
    if ('progress' in row) ({ answer: worker, dueIn, progress } = row);
    else if ('job' in row) jobs.push(row.job);
    else if (!('id' in row)) worker = row.answer;
    else if (row.answer === 'spent') spent.push(row.id);
    else answers[row.id] = row.answer;
  }
  return { worker, dueIn, answers, jobs, spent, progress };
}

/** The settlement of a job that succeeded. */
export function done(
  { id, leaseNo }: Pick<ClaimedJob, 'id' | 'leaseNo'>,
  { keep = true, result }: { keep?: boolean; result?: string } = {},
): Settlement {
  return { id, leaseNo, action: 'done', result, keep };
}

/** A job as `enqueueMany` takes it; of kind `k` with nothing else said. */
export function draft(fields: Partial<JobRow> = {}): JobRow {
  return {
    queue: 'default',
    kind: 'k',
    payload: '{}',
    priority: null,
    runAt: null,
    delayMs: null,
    maxAttempts: null,
    dedupeKey: null,
    meta: null,
    ...fields,
  };
}

/** That many jobs of kind `k`, by plain SQL; ids in order. */
export async function insertJobs(session: Session, count: number): Promise<string[]> {
  const rows = await session.rows<{ id: string }>(
    `insert into pgqueue.jobs (kind) select 'k' from generate_series(1, $1) returning id`,
    [count],
  );
  return rows.map(({ id }) => id);
}

/** Where a job stands, by the view. */
export function statusOf(session: Session, id: string): Promise<string | undefined> {
  return session.value('select status from pgqueue.all_jobs where id = $1', [id]);
}

/** The pending row of a job. */
export async function jobRow(
  session: Session,
  id: string,
): Promise<{ status: string; attempts: number; lease_no: number; locked_by: string | null }> {
  const [row] = await session.rows<Awaited<ReturnType<typeof jobRow>>>(
    'select status, attempts, lease_no, locked_by from pgqueue.jobs where id = $1',
    [id],
  );
  if (row === undefined) throw new Error(`Job ${id} is not pending`);
  return row;
}

export function freshName(): string {
  return `pgq_${randomBytes(6).toString('hex')}`;
}

/** Runs something on a connection made for it. */
export async function once<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export function serverUrl(): string {
  const url = process.env.DATABASE_URL;
  if (url === undefined) throw new Error('DATABASE_URL is not set');
  return url;
}

async function createDatabase(server: string): Promise<string> {
  const name = freshName();
  await once(server, (client) => client.query(`create database ${name}`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

function databaseOf(url: string): string {
  return new URL(url).pathname.slice(1);
}
