import type { Type } from '@nestjs/common';
import type pg from 'pg';
import { DATABASE_URL, endApps, on, pool, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { forSchema } from '../../lib/store/sql.js';
import { signal, type Signal } from '../support/signal.js';

let runs = 0;
let gate: Signal;
let blocker: pg.PoolClient;
const held = on('held', async () => {
  runs += 1;
  await gate.happened;
  return 'the result';
});

beforeEach(async () => {
  runs = 0;
  gate = signal();
  blocker = await pool.connect();
});
afterEach(async () => {
  gate.fire();
  await blocker.query('rollback');
  blocker.release();
  await endApps();
});

function reaches(app: TestApp, id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

/** Takes a lock that an exchange of the application then waits for. */
async function block(app: TestApp, lock: string): Promise<void> {
  await blocker.query('begin');
  await blocker.query(forSchema(lock, app.schema));
}

/** The backend whose exchange waits for a lock. */
function waitingExchange(app: TestApp): Promise<number> {
  return eventually(async () => {
    const { rows } = await pool.query(
      `select pid from pg_stat_activity
        where application_name = 'nestjs-pg-queue' and wait_event_type = 'Lock'
          and position('"' || $1 || '".exchange_v1' in query) > 0`,
      [app.schema],
    );
    expect(rows).toHaveLength(1);
    return rows[0].pid as number;
  });
}

/** A job in its last attempt, with the application that runs it. */
async function lastAttempt(handlers: Type[], connectionString = DATABASE_URL) {
  // The schema is made on connections without a limit.
  const web = await startWith([], { worker: false });
  const app = await startWith(handlers, { schema: web.schema, connectionString, migrate: false });
  const { id } = await app.queue.enqueue('held', {}, { maxAttempts: 1 });
  await eventually(() => expect(runs).toBe(1));
  return { app, id };
}

function withStatementTimeout(ms: number): string {
  const url = new URL(DATABASE_URL);
  url.searchParams.set('options', `-c statement_timeout=${ms}`);
  return url.href;
}

const LOCK_WORKER = `select pg_advisory_xact_lock(pgqueue.worker_key(id)) from pgqueue.workers`;
const LOCK_HISTORY = 'lock table pgqueue.done_jobs in share mode';
const LOCK_JOBS = 'lock table pgqueue.jobs in share row exclusive mode';

describe('B21: the settle of a last attempt that succeeded', () => {
  it.each([
    ['before it changed anything', LOCK_WORKER],
    ['in the middle of its changes', LOCK_HISTORY],
  ])('survives the end of its connection %s', async (_when, lock) => {
    const { app, id } = await lastAttempt([held]);
    await block(app, lock);
    gate.fire();
    const pid = await waitingExchange(app);
    await pool.query('select pg_terminate_backend($1)', [pid]);
    await blocker.query('rollback');
    await reaches(app, id, 'done');
    expect(runs).toBe(1);
    expect(await app.queue.get(id)).toMatchObject({
      attempts: 1,
      errors: [],
      result: 'the result',
    });
    expect(await app.sql('select id from pgqueue.done_jobs')).toHaveLength(1);
  });

  it('does not wait for a row that somebody has locked, and is sent again', async () => {
    const { app, id } = await lastAttempt([held], withStatementTimeout(200));
    await block(app, 'select id from pgqueue.jobs for update');
    gate.fire();
    // Meanwhile the loop goes on with other jobs.
    const { id: other } = await app.queue.enqueue('held', {});
    await reaches(app, other, 'done');
    expect(await app.status(id)).toBe('running');
    await blocker.query('rollback');
    await reaches(app, id, 'done');
    expect(runs).toBe(2);
  });

  it('survives a statement_timeout', async () => {
    const { app, id } = await lastAttempt([held], withStatementTimeout(200));
    await block(app, LOCK_HISTORY);
    gate.fire();
    const pid = await waitingExchange(app);
    await untilGivenUp(pid);
    await blocker.query('rollback');
    await reaches(app, id, 'done');
    expect(runs).toBe(1);
    expect(await app.queue.get(id)).toMatchObject({ attempts: 1, errors: [] });
  });
});

it('B21: the loop goes on after a statement_timeout of the claim', async () => {
  gate.fire();
  const { app } = await lastAttempt([held], withStatementTimeout(200));
  await eventually(async () => expect((await app.queue.counts()).running).toBe(0));
  // The enqueue itself is on the same lock, so the job is there before.
  await app.sql('update pgqueue.queues set paused_at = now()');
  const { id } = await app.queue.enqueue('held', {});
  await block(app, LOCK_JOBS);
  await app.sql('update pgqueue.queues set paused_at = null');
  const pid = await waitingExchange(app);
  await untilGivenUp(pid);
  expect(runs).toBe(1);
  await blocker.query('rollback');
  await reaches(app, id, 'done');
  expect(runs).toBe(2);
});

/** Until the statement that waits for a lock has been cancelled. */
async function untilGivenUp(pid: number): Promise<void> {
  await eventually(async () => {
    const { rows } = await pool.query(
      `select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`,
      [pid],
    );
    expect(rows).toHaveLength(0);
  });
}
