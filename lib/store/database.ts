import { Client, Pool, type ClientConfig, type PoolConfig } from 'pg';
import { PgQueueError } from '../contracts/errors.js';
import type { ResolvedOptions } from '../contracts/options.js';
import type { TransactionHandle } from '../contracts/transaction.js';
import { Connections } from './connections.js';
import { forSchema } from './sql.js';
import type { Statement, TextRow } from './statement.js';

/**
 * Exchange, heartbeat, rescue, housekeeping, the watches for requests to cancel and for settings,
 * progress and schedules have at most one statement each on its way.
 */
const ENGINE_CONNECTIONS = 8;

/** How long what is on its way may take at the end: the worker has stopped; a request may be finishing. */
const CLOSE_LIMIT_MS = { engine: 300, callers: 5_000 } as const;

/** What the application's database is reached by: the callers' connections, and the engine's own. */
export class Database {
  readonly schema: string;
  /** For `QueueService`: the application's pool if it gave one, else a pool of our own. */
  readonly callers: Connections;
  /** For the worker: a small pool that handlers and requests can't take from. Connects at its first use. */
  readonly engine: Connections;

  private readonly rendered = new Map<string, string>();
  private closing: Promise<void> | undefined;

  constructor(private readonly options: ResolvedOptions) {
    this.schema = options.schema;
    const render = (sql: string) => this.render(sql);
    const engine = ownPool({ ...this.config(), max: ENGINE_CONNECTIONS });
    this.engine = new Connections(engine, true, render);
    if (options.pool) {
      this.callers = new Connections(options.pool, false, render);
    } else {
      const callers = ownPool({ ...this.config(), max: options.maxConnections });
      this.callers = new Connections(callers, true, render);
    }
  }

  /** Runs a statement on a transaction of the caller's, whose rows may come in either usual shape. */
  async runOn<Params, Row>(
    tx: TransactionHandle,
    statement: Statement<Params, Row>,
    params: Params,
  ): Promise<Row[]> {
    const answer = await tx.query(this.render(statement.text), statement.values(params));
    const rows = Array.isArray(answer) ? answer : (answer as { rows?: unknown } | null)?.rows;
    if (!Array.isArray(rows)) {
      throw new PgQueueError(
        'INVALID_ARGUMENT',
        'The `tx` answered neither rows nor { rows }. Give a pg client, a TypeORM manager or query runner, or an object whose query(text, values) does.',
      );
    }
    return (rows as TextRow[]).map((row) => statement.row(row));
  }

  /** The SQL for this database's schema; rendered once for each text. */
  render(sql: string): string {
    let text = this.rendered.get(sql);
    if (text === undefined) {
      text = forSchema(sql, this.schema);
      this.rendered.set(sql, text);
    }
    return text;
  }

  /** A client that can LISTEN: a direct connection where the options name one. Not connected yet. */
  directClient(config: ClientConfig = {}): Client {
    const connectionString = this.options.listen?.connectionString;
    const base = connectionString === undefined ? this.config() : { connectionString };
    const client = new Client({ ...base, ...COMMON, ...config });
    client.on('error', ignore);
    return client;
  }

  /**
   * Ends the pools made here; the application's own is left alone. Bounded: a statement that the server does
   * not answer is given up. May be called more than once.
   */
  close(): Promise<void> {
    this.closing ??= Promise.all([
      this.engine.close(CLOSE_LIMIT_MS.engine),
      this.callers.close(CLOSE_LIMIT_MS.callers),
    ]).then(ignore);
    return this.closing;
  }

  private config(): PoolConfig {
    const { connectionString, pool } = this.options;
    if (connectionString !== undefined) return { connectionString };
    const config: PoolConfig = pool?.options ?? {};
    // `pg.Pool` hides the password from enumeration.
    return { ...config, ...(config.password !== undefined && { password: config.password }) };
  }
}

const COMMON = {
  application_name: 'nestjs-pg-queue',
  keepAlive: true,
  connectionTimeoutMillis: 10_000,
} as const;

function ownPool(config: PoolConfig): Pool {
  const pool = new Pool({
    ...config,
    ...COMMON,
    idleTimeoutMillis: 60_000,
  });
  // An idle connection that breaks is replaced at the next use; whoever needs one then reports it.
  pool.on('error', ignore);
  return pool;
}

function ignore(): void {}
