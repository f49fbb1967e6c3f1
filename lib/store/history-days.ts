import type { Client } from 'pg';
import { within } from '../contracts/within.js';
import type { Database } from './database.js';
import { errorCode } from './errors.js';
import { quoteIdentifier } from './sql.js';
import { DAY_MARK, listDays, type HistoryDay } from './statements/history-days.js';

/** A day is made this many days before it begins. */
const DAYS_AHEAD = 7;

/**
 * DDL is where a queue stops: a DROP that waits for one long reader makes every settle wait behind it. So
 * nothing here waits longer for a lock, and what was refused is tried again at the next tick.
 */
const LOCK_TIMEOUT_MS = 100;
const DDL_LIMIT_MS = 15_000;
const END_LIMIT_MS = 1_000;

/** Makes the tables of today and the days to come that are missing, and attaches them. */
export async function makeDaysAhead(database: Database): Promise<void> {
  const days = await database.engine.run(listDays, DAYS_AHEAD);
  const missing = days.filter(
    ({ state, age }) => age <= 0 && (state === 'missing' || state === 'detached'),
  );
  if (missing.length === 0) return;
  for (const day of missing) await ifUnlocked(() => makeDay(database, day));
}

/** Detaches and drops the tables of days that ended more than `keep` ms ago. */
export async function dropOldDays(database: Database, keep: number): Promise<void> {
  if ((await listOldDays(database, keep)).length === 0) return;
  await onDirectClient(database, async (client) => {
    if (!(await isTheOnlyOne(client, database))) return;
    for (const day of await listOldDays(database, keep)) {
      // One at a time may be half detached: PostgreSQL refuses to begin with the next one.
      if (!(await ifUnlocked(() => dropDay(client, database, day)))) return;
    }
  });
}

/** The one that is half detached first, whatever its age: it stands in the way of all others. */
async function listOldDays(database: Database, keep: number): Promise<HistoryDay[]> {
  const keptDays = Math.ceil(keep / 86_400_000);
  const days = await database.engine.run(listDays, 0);
  return [
    ...days.filter(({ state }) => state === 'detaching'),
    ...days.filter(
      ({ age, state }) => age > keptDays && (state === 'attached' || state === 'detached'),
    ),
  ];
}

/** Whether nobody else drops days of this schema now. Holds until the client ends. */
async function isTheOnlyOne(client: Client, database: Database): Promise<boolean> {
  const { rows } = await client.query<{ locked: string }>(
    `select pg_try_advisory_lock(hashtextextended('nestjs-pg-queue drop history ' || $1, 0))::text as locked`,
    [database.schema],
  );
  return rows[0]?.locked === 'true';
}

/** A plain table first, then ATTACH: neither stands in the way of a settle. Works through a pooler. */
async function makeDay(database: Database, day: HistoryDay): Promise<void> {
  const parent = qualified(database, 'done_jobs');
  const table = qualified(database, day.table);
  try {
    await database.engine.transaction(async (client) => {
      await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      // Several processes may want to make the same day.
      await client.query(
        `select pg_advisory_xact_lock(hashtextextended('nestjs-pg-queue history ' || $1, 0))`,
        [database.schema],
      );
      await client.query(
        `create table if not exists ${table} (like ${parent} including defaults including constraints including indexes)`,
      );
      await client.query(`comment on table ${table} is '${DAY_MARK}'`);
      await client.query(
        `alter table ${parent} attach partition ${table} for values from ('${day.from} 00:00:00+00') to ('${day.to} 00:00:00+00')`,
      );
    }, DDL_LIMIT_MS);
  } catch (error) {
    // 42809: it is a partition already, whoever held the lock before us has made it.
    if (errorCode(error) !== '42809') throw error;
  }
}

/** DETACH CONCURRENTLY waits without a lock on the parent; DROP then meets a table that nobody reads any more. */
async function dropDay(client: Client, database: Database, day: HistoryDay): Promise<void> {
  const parent = qualified(database, 'done_jobs');
  const table = qualified(database, day.table);
  if (day.state !== 'detached') {
    // So that a tick that gets no further than this finds it again.
    await client.query(`comment on table ${table} is '${DAY_MARK}'`);
    const how = day.state === 'attached' ? 'concurrently' : 'finalize';
    await client.query(`alter table ${parent} detach partition ${table} ${how}`);
  }
  await client.query(`drop table if exists ${table}`);
}

async function onDirectClient(
  database: Database,
  work: (client: Client) => Promise<void>,
): Promise<void> {
  const client = database.directClient({ lock_timeout: LOCK_TIMEOUT_MS });
  try {
    await client.connect();
    await within(DDL_LIMIT_MS, work(client), noAnswer);
  } finally {
    await within(END_LIMIT_MS, client.end(), noAnswer).catch(() => {});
  }
}

/** False if someone holds a lock (55P03). The next tick tries again. */
async function ifUnlocked(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (errorCode(error) !== '55P03') throw error;
    return false;
  }
}

function noAnswer(): Error {
  return new Error(`The database did not answer within ${DDL_LIMIT_MS} ms`);
}

function qualified(database: Database, table: string): string {
  return `${quoteIdentifier(database.schema)}.${quoteIdentifier(table)}`;
}
