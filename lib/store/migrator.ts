import { PgQueueError } from '../contracts/errors.js';
import type { PoolClientLike } from '../contracts/options.js';
import type { Database } from './database.js';
import { errorCode } from './errors.js';
import { quoteIdentifier } from './sql.js';
import { MIGRATIONS } from './migrations/index.js';

const LATEST = MIGRATIONS.at(-1)?.version ?? 0;

const CREATE_MIGRATIONS = /* sql */ `
create table if not exists pgqueue.migrations (
  version    int primary key,
  name       text not null,
  applied_at timestamptz not null default now()
);`;

/**
 * Brings the schema up to date in one transaction: all of it or nothing. Any number of processes may race:
 * a transaction-scoped lock lets one at a time in, and those after it find nothing to do.
 */
export async function migrate(database: Database): Promise<void> {
  if ((await currentVersion(database)) >= LATEST) return;
  await database.engine.transaction(async (client) => {
    // The lock in a statement of its own: what follows must see what the holder before us committed.
    await client.query(
      `select pg_advisory_xact_lock(hashtextextended('nestjs-pg-queue migrate ' || $1, 0))`,
      [database.schema],
    );
    await createSchema(client, database);
    await client.query(database.render(CREATE_MIGRATIONS));
    const applied = await readVersion(client, database);
    for (const { version, name, sql } of MIGRATIONS) {
      if (version <= applied) continue;
      await client.query(database.render(sql));
      await client.query(
        database.render('insert into pgqueue.migrations (version, name) values ($1, $2)'),
        [version, name],
      );
    }
  });
}

/** @throws PgQueueError `SCHEMA_OUT_OF_DATE` if the schema is missing or older than this version needs. */
export async function checkSchema(database: Database): Promise<void> {
  const version = await currentVersion(database);
  if (version >= LATEST) return;
  throw new PgQueueError(
    'SCHEMA_OUT_OF_DATE',
    `The schema "${database.schema}" ${version === 0 ? 'has no job queue' : `is at version ${version}`}, but this version of nestjs-pg-queue needs version ${LATEST}. Start one process with \`migrate: 'auto'\` under a role that owns the schema.`,
  );
}

/** Looks first: IF NOT EXISTS asks for the right to create schemas even where there is one. */
async function createSchema(client: PoolClientLike, database: Database): Promise<void> {
  const { rows } = await client.query('select 1 from pg_namespace where nspname = $1', [
    database.schema,
  ]);
  if (rows.length === 0) await client.query(`create schema ${quoteIdentifier(database.schema)}`);
}

/** 0 if there is no schema yet. */
async function currentVersion(database: Database): Promise<number> {
  try {
    return await database.engine.transaction((client) => readVersion(client, database));
  } catch (error) {
    const missing = ['42P01', '3F000'].includes(errorCode(error) ?? '');
    if (missing) return 0;
    throw error;
  }
}

async function readVersion(client: PoolClientLike, database: Database): Promise<number> {
  const { rows } = await client.query(
    database.render('select coalesce(max(version), 0)::text as version from pgqueue.migrations'),
  );
  return Number(rows[0].version);
}
