import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import { PgQueueError } from '../contracts/errors.js';
import type { PoolClientLike, PoolLike } from '../contracts/options.js';
import { within } from '../contracts/within.js';
import { isAnswer, isConnectionUnusable, isLostPreparation } from './errors.js';
import { TEXT_TYPES, type Statement, type TextRow } from './statement.js';

/** Nothing that this package sends may wait longer than this for the database, unless it says so itself. */
const DEFAULT_LIMIT_MS = 30_000;

type Client = PoolClientLike & NodeJS.EventEmitter;

/** A client of `pg` can be ended although its pool has it checked out. */
interface Ending {
  end(): Promise<void>;
}

interface Query {
  readonly text: string;
  readonly values: readonly unknown[];
  readonly name?: string;
}

const TEAR_DOWN_LIMIT_MS = 500;

/**
 * A pool and the rules for its clients: each has an error listener while it is out, each wait has a limit,
 * each statement runs READ COMMITTED, and a client that timed out or lost its server is destroyed.
 */
export class Connections {
  /** Whether a connection's default isolation differs from READ COMMITTED. Found at its first use. */
  private readonly mustSetIsolation = new WeakMap<Client, boolean>();

  /** Whether a session of ours is the same one of the server from one statement to the next. */
  private keepsPrepared = true;

  /** Counts the broken connections, and for each client how many there were when it was made. */
  private breaks = 0;
  private readonly madeAfter = new WeakMap<Client, number>();

  private readonly out = new Set<Client>();
  private closed = false;

  /** @param isOwn whether the pool is ours, so that its clients may be replaced */
  constructor(
    private readonly pool: PoolLike,
    private readonly isOwn: boolean,
    private readonly render: (sql: string) => string,
  ) {
    this.events?.on('acquire', this.listen);
  }

  /**
   * Runs one statement.
   * @throws what PostgreSQL answered; `DATABASE_TIMEOUT` after `limit` ms, or `OUTCOME_UNKNOWN` if the
   *   connection broke before the answer: in both cases the statement may or may not have taken effect
   */
  async run<Params, Row>(
    statement: Statement<Params, Row>,
    params: Params,
    limit: number = DEFAULT_LIMIT_MS,
  ): Promise<Row[]> {
    const query = {
      text: this.render(statement.text),
      values: statement.values(params),
      types: TEXT_TYPES,
    };
    const rows = await this.rowsOf(query, statement.isHot ?? false, limit);
    return rows.map((row) => statement.row(row));
  }

  /**
   * Runs `work` between BEGIN and COMMIT on one client; a throw rolls back. Without a limit the work decides.
   * @throws what `work` threw; `OUTCOME_UNKNOWN` if the connection broke while COMMIT was on its way
   */
  transaction<T>(work: (client: PoolClientLike) => Promise<T>, limit?: number): Promise<T> {
    return this.withClient((client) => {
      const done = inTransaction(client, () => work(client));
      return limit === undefined ? done : within(limit, done, () => noAnswer(limit));
    });
  }

  /** Nothing is sent any more; what is on its way has `limit` ms to come back, if the pool is ours. */
  async close(limit: number): Promise<void> {
    this.closed = true;
    this.events?.off('acquire', this.listen);
    if (!this.isOwn) return;
    const ended = (this.pool as Pool).end();
    await within(limit, ended, queueClosed).catch(ignore);
    // A client with a statement under way is torn down, and its statement rejects.
    for (const client of this.out) void (client as unknown as Ending).end().catch(ignore);
    await within(TEAR_DOWN_LIMIT_MS, ended, queueClosed).catch(ignore);
  }

  private async rowsOf(query: Query, isHot: boolean, limit: number): Promise<TextRow[]> {
    const named = isHot && this.keepsPrepared ? { ...query, name: nameOf(query.text) } : query;
    try {
      const { rows } = await this.withClient((client) =>
        within(limit, this.send(client, named), () => noAnswer(limit)),
      );
      return rows;
    } catch (error) {
      if (!isLostPreparation(error) || named === query) throw error;
      this.keepsPrepared = false;
      return this.rowsOf(query, false, limit);
    }
  }

  private async withClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.checkOut();
    this.out.add(client);
    try {
      const result = await work(client);
      this.out.delete(client);
      client.release();
      return result;
    } catch (error) {
      this.out.delete(client);
      const unusable = isConnectionUnusable(error) && !(error instanceof RolledBack);
      if (unusable) this.breaks += 1;
      client.release(unusable);
      throw error instanceof RolledBack ? error.cause : error;
    }
  }

  private async send(client: Client, query: Query): Promise<{ rows: TextRow[] }> {
    // `pg` takes a configuration in place of the text; the narrow interface of a pool does not say so.
    const ask = () => client.query(query as unknown as string);
    try {
      return (await this.setsIsolation(client)) ? await inTransaction(client, ask) : await ask();
    } catch (error) {
      if (isAnswer(error) || error instanceof RolledBack || error instanceof PgQueueError)
        throw error;
      throw outcomeUnknown(error);
    }
  }

  /**
   * What broke or silenced one connection has as a rule done so to all: an idle client from before is
   * replaced, so that an outage is not met once for each of them, a time limit after the other.
   */
  private async checkOut(): Promise<Client> {
    for (;;) {
      if (this.closed) throw queueClosed();
      const client = await this.connect();
      const madeAfter = this.madeAfter.get(client) ?? this.breaks;
      this.madeAfter.set(client, madeAfter);
      if (madeAfter === this.breaks || !this.isOwn) return client;
      // With a query under way the socket is destroyed at once; without, its end waits for the server's.
      client.query('select 1').catch(ignore);
      client.release(true);
    }
  }

  private async setsIsolation(client: Client): Promise<boolean> {
    let mustSet = this.mustSetIsolation.get(client);
    if (mustSet === undefined) {
      const { rows } = await client.query('show default_transaction_isolation');
      mustSet = Object.values(rows[0] as object)[0] !== 'read committed';
      this.mustSetIsolation.set(client, mustSet);
    }
    return mustSet;
  }

  private async connect(): Promise<Client> {
    const coming = this.pool.connect();
    try {
      return (await within(DEFAULT_LIMIT_MS, coming, noClient)) as Client;
    } catch (error) {
      void coming.then((client) => client.release(), ignore); // if it comes all the same
      throw error;
    }
  }

  /** `pg.Pool` tells what it does; a pool of another make need not. */
  private get events(): NodeJS.EventEmitter | undefined {
    return 'on' in this.pool ? (this.pool as unknown as NodeJS.EventEmitter) : undefined;
  }

  /**
   * Without a listener the 'error' of a broken connection would end the process. The pool takes its own away
   * before we are told of a client, and a new one may break in between; it gives this event before that.
   */
  private readonly listen = (client: Client): void => {
    if (!client.listeners('error').includes(ignore)) client.on('error', ignore);
  };
}

/** The same text has the same name everywhere, so that behind a pooler nobody runs another statement by it. */
function nameOf(text: string): string {
  return `pgqueue_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
}

/** An error after which ROLLBACK was answered: the client is as good as before. */
class RolledBack extends Error {}

async function inTransaction<T>(client: PoolClientLike, work: () => Promise<T>): Promise<T> {
  await client.query('begin isolation level read committed');
  let result: T;
  try {
    result = await work();
  } catch (error) {
    await client.query('rollback').catch(() => {
      throw error;
    });
    if (isAnswer(error) && isConnectionUnusable(error)) throw error;
    throw new RolledBack('', { cause: error });
  }
  const { command } = await commit(client);
  if (command === 'ROLLBACK') throw new RolledBack('', { cause: transactionAborted() });
  return result;
}

/** For a transaction that can't be committed. */
export function transactionAborted(): PgQueueError {
  return new PgQueueError(
    'TRANSACTION_ABORTED',
    'The transaction was rolled back, since a statement in it had failed. Let the error of that statement pass, or use a savepoint around it.',
  );
}

async function commit(client: PoolClientLike): Promise<{ command?: string }> {
  try {
    return (await client.query('commit')) as { command?: string };
  } catch (error) {
    if (!isConnectionUnusable(error)) throw error;
    throw outcomeUnknown(error);
  }
}

function noClient(): PgQueueError {
  return new PgQueueError(
    'DATABASE_TIMEOUT',
    `The pool had no free connection for ${DEFAULT_LIMIT_MS} ms. Inside a transaction pass it on as \`tx\`, so that no second connection is needed; else give the pool more.`,
  );
}

function outcomeUnknown(cause: unknown): PgQueueError {
  return new PgQueueError(
    'OUTCOME_UNKNOWN',
    'The connection was lost before the database answered: what was sent may or may not have taken effect. Look before you repeat it, or use a dedupe key, which makes repeating safe.',
    { cause },
  );
}

function queueClosed(): PgQueueError {
  return new PgQueueError(
    'CLOSED',
    'The queue is closed, since its application has shut down. Enqueue before that, in an earlier shutdown hook.',
  );
}

function noAnswer(limit: number): PgQueueError {
  return new PgQueueError(
    'DATABASE_TIMEOUT',
    `The database did not answer within ${limit} ms. Its connection is given up; look for locks or an overloaded server.`,
  );
}

function ignore(): void {}
