// @ts-check
// The one PostgreSQL of a run: a database for each measurement, so that nobody's tables burden another, and
// nobody pays for another's checkpoint.
import pg from 'pg';
import { startPostgres } from '../../scripts/postgres.mjs';
import { parentOf } from './cpu.mjs';

const SETTINGS = ['shared_buffers=1GB', 'max_wal_size=4GB'];
// Counts the statements of the idle test only: with track=none it costs nothing.
const COUNTING = ['shared_preload_libraries=pg_stat_statements', 'pg_stat_statements.track=none'];

/** @typedef {{ calls: number, walBytes: number, query: string }} StatementCount */

export class PostgresLab {
  /**
   * @param {import('../../scripts/postgres.mjs').Postgres} server
   * @param {pg.Client} client
   * @param {{ version: string, postmaster: number | undefined }} facts
   */
  constructor(server, client, { version, postmaster }) {
    this.server = server;
    this.client = client;
    this.version = version;
    this.postmaster = postmaster;
    /** What differs from the defaults, for the report. */
    this.settings = SETTINGS;
  }

  static async start() {
    const server = await startPostgres({
      major: 18,
      durable: true,
      settings: [...SETTINGS, ...COUNTING],
    });
    const client = new pg.Client(server.url);
    // An end of the server is seen by whatever is sent next.
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query(
      `select current_setting('server_version') as version, pg_backend_pid() as pid`,
    );
    const { version, pid } = rows[0];
    return new PostgresLab(server, client, { version, postmaster: parentOf(pid) });
  }

  /** @param {string} name */
  async createDatabase(name) {
    await this.dropDatabase(name);
    await this.client.query(`create database ${pg.escapeIdentifier(name)}`);
    const url = new URL(this.server.url);
    url.pathname = `/${name}`;
    return url.href;
  }

  /** @param {string} name */
  async dropDatabase(name) {
    await this.client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
  }

  async checkpoint() {
    await this.client.query('checkpoint');
  }

  /** Bytes of WAL that were ever written. */
  async walPosition() {
    const { rows } = await this.client.query(
      `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes`,
    );
    return /** @type {number} */ (rows[0].bytes);
  }

  /**
   * Statements of a database are counted from its next connections on.
   * @param {string} database
   */
  async countStatements(database) {
    await this.client.query('create extension if not exists pg_stat_statements');
    await this.client.query(
      `alter database ${pg.escapeIdentifier(database)} set pg_stat_statements.track = 'top'`,
    );
  }

  async resetCounts() {
    await this.client.query('select pg_stat_statements_reset()');
  }

  /**
   * @param {string} database
   * @returns {Promise<StatementCount[]>}
   */
  async statementCounts(database) {
    const { rows } = await this.client.query(
      `select s.calls::int as calls, s.wal_bytes::float8 as "walBytes", s.query
         from pg_stat_statements s join pg_database d on d.oid = s.dbid
        where d.datname = $1 order by s.calls desc`,
      [database],
    );
    return rows;
  }

  async stop() {
    await this.client.end().catch(() => {});
    await this.server.stop();
  }
}

/**
 * Vacuumed and analysed, as autovacuum leaves a table that has been there for a while.
 * @param {string} url
 */
export async function settleTables(url) {
  await withClient(url, (client) => client.query('vacuum analyze'));
}

/**
 * @template T
 * @param {string} url
 * @param {(client: pg.Client) => Promise<T>} work
 */
export async function withClient(url, work) {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
