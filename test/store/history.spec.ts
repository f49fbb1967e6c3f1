import { isMissingDay } from '../../lib/store/errors.js';
import { Database } from '../../lib/store/database.js';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { makeDaysAhead } from '../../lib/store/history-days.js';
import { DAY_MARK, listDays } from '../../lib/store/statements/history-days.js';
import { eventually } from '../support/eventually.js';
import {
  done,
  exchange,
  insertJobs,
  openStore,
  startWorker,
  statusOf,
  type Session,
  type TestStore,
} from '../support/store.js';

// In a database of its own: the last step of dropping a day waits for older snapshots of the whole database.

const KEEP = 7 * 86_400_000;

let t: TestStore;

beforeEach(async () => {
  t = await openStore({ ownDatabase: true });
});
afterEach(() => t.close());

async function addOldDay(day: string): Promise<void> {
  const table = `pgqueue.done_jobs_${day.replaceAll('-', '')}`;
  await t.observer.query(
    `create table ${table} partition of pgqueue.done_jobs
       for values from ('${day} 00:00:00+00') to (timestamptz '${day} 00:00:00+00' + interval '1 day')`,
  );
  await t.observer.query(`comment on table ${table} is '${DAY_MARK}'`);
  await t.observer.query(
    `insert into pgqueue.done_jobs (id, queue, kind, payload, status, priority, run_at, attempts,
                                    max_attempts, lease_no, created_at, finished_at)
     values (1, 'default', 'k', '{}', 'done', 0, now(), 1, 5, 1, now(), '${day} 12:00:00+00')`,
  );
}

async function oldDays(): Promise<string[]> {
  const days = await t.observer.run(listDays, 0);
  return days.filter(({ age }) => age > 7).map(({ from, state }) => `${from} ${state}`);
}

/** Settles and claims on and on until `work` has ended; answers how often. */
async function settleDuring(session: Session, work: Promise<unknown>): Promise<number> {
  const worker = await startWorker(session);
  let ended = false;
  const ending = work.finally(() => (ended = true));
  let exchanges = 0;
  for (let last = false; !last; exchanges += 1) {
    last = ended;
    await insertJobs(session, 3);
    const { jobs } = await exchange(session, { worker, want: 3 });
    const { answers } = await exchange(session, { worker, settlements: jobs.map((j) => done(j)) });
    expect(answers).toEqual({});
  }
  await ending;
  return exchanges;
}

describe('a reader held open on the history while days are dropped', () => {
  test('costs no settle anything, and the days go when it has ended', async () => {
    await addOldDay('2020-01-01');
    await addOldDay('2020-01-02');
    const lastDay = (await t.observer.run(listDays, 7)).at(-1);
    await t.observer.query(`drop table pgqueue.${lastDay?.table}`);
    const [reader, settler] = [await t.connect(), await t.connect()];
    // Far below the time that the dropping waits for its locks.
    await settler.query(`set lock_timeout = '50ms'`);
    await reader.begin();
    await reader.query('select count(*) from pgqueue.all_jobs');
    await reader.query('select count(*) from pgqueue.done_jobs');

    const exchanges = await settleDuring(settler, t.store.dropOldDays(KEEP));
    expect(exchanges).toBeGreaterThan(2);
    // Begun with the first, and refused: the reader still counts on it.
    expect(await oldDays()).toEqual(['2020-01-01 detaching', '2020-01-02 attached']);

    // So is the next tick, which finds the day half detached. A day ahead is made all the same.
    await settleDuring(settler, t.store.dropOldDays(KEEP));
    await settleDuring(settler, t.store.makeDaysAhead());
    expect(await oldDays()).toEqual(['2020-01-01 detaching', '2020-01-02 attached']);

    await reader.commit();
    await settleDuring(settler, t.store.dropOldDays(KEEP));
    expect(await oldDays()).toEqual([]);
    expect(
      await t.observer.rows(`select from pgqueue.done_jobs where finished_at < '2021-01-01'`),
    ).toEqual([]);
    expect((await t.observer.run(listDays, 7)).map(({ state }) => state)).toEqual(
      Array.from({ length: 8 }, () => 'attached'),
    );
  });

  test('does not keep a day from going that nobody reads any more, once it is detached', async () => {
    await addOldDay('2020-01-01');
    await t.observer.query(
      'alter table pgqueue.done_jobs detach partition pgqueue.done_jobs_20200101',
    );
    expect(await oldDays()).toEqual(['2020-01-01 detached']);
    const reader = await t.connect();
    await reader.begin();
    await reader.query('select count(*) from pgqueue.all_jobs');
    await t.store.dropOldDays(KEEP);
    expect(await oldDays()).toEqual([]);
    await reader.rollback();
  });
});

describe('days of history', () => {
  test('are kept as long as they are asked to be, and whole', async () => {
    const days = await t.observer.rows<{ ago: number; day: string }>(`
      select n as ago, to_char((now() at time zone 'utc')::date - n, 'YYYY-MM-DD') as day
        from generate_series(1, 9) n`);
    for (const { day } of days) await addOldDay(day);
    await t.store.dropOldDays(KEEP);
    const left = (await t.observer.run(listDays, 0)).filter(({ age }) => age > 0);
    expect(left.map(({ age }) => age)).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });

  test('dropped by several processes at once are dropped, and none of them minds', async () => {
    for (const day of ['2020-01-01', '2020-01-02', '2020-01-03']) await addOldDay(day);
    await Promise.all(Array.from({ length: 4 }, () => t.store.dropOldDays(KEEP)));
    // What one was refused while the other had it is the next tick's.
    await eventually(async () => {
      await t.store.dropOldDays(KEEP);
      expect(await oldDays()).toEqual([]);
    });
  });

  test('are made by five processes at once: today and a week ahead, in UTC', async () => {
    for (const { table } of await t.observer.run(listDays, 7)) {
      await t.observer.query(`drop table pgqueue.${table}`);
    }
    const options = resolveOptions({ connectionString: t.url, schema: t.schema });
    const processes = Array.from({ length: 5 }, () => new Database(options));
    await Promise.all(processes.map(makeDaysAhead));
    await eventually(async () => {
      await t.store.makeDaysAhead();
      const days = await t.observer.run(listDays, 7);
      expect(days.map(({ age, state }) => `${age} ${state}`)).toEqual(
        [0, -1, -2, -3, -4, -5, -6, -7].map((age) => `${age} attached`),
      );
    });
    await Promise.all(processes.map((database) => database.close()));

    const bounds = await t.observer.rows<{ bound: string }>(`
      select pg_get_expr(c.relpartbound, c.oid) as bound from pg_inherits i
        join pg_class c on c.oid = i.inhrelid where i.inhparent = 'pgqueue.done_jobs'::regclass`);
    const [today] = await t.observer.rows<{ day: string }>(
      `select to_char(now() at time zone 'utc', 'YYYY-MM-DD') as day`,
    );
    await t.observer.query(`set timezone = 'utc'`);
    expect(bounds).toHaveLength(8);
    expect((await t.observer.run(listDays, 7))[0]?.from).toBe(today?.day);
  });

  test('that were made but not attached are attached', async () => {
    const [today] = await t.observer.run(listDays, 0);
    await t.observer.query(
      `alter table pgqueue.done_jobs detach partition pgqueue.${today?.table}`,
    );
    await t.store.makeDaysAhead();
    expect((await t.observer.run(listDays, 0))[0]?.state).toBe('attached');
  });
});

describe('a day that is missing', () => {
  beforeEach(async () => {
    for (const { table } of await t.observer.run(listDays, 7)) {
      await t.observer.query(`drop table pgqueue.${table}`);
    }
  });

  test('fails the exchange as a whole, with an error that is told from a bad value', async () => {
    const [id = ''] = await insertJobs(t.observer, 1);
    const worker = await startWorker(t.observer);
    const { jobs } = await exchange(t.observer, { worker, want: 1 });
    const settlements = jobs.map((job) => done(job));
    const refused = await exchange(t.observer, { worker, settlements }).catch((e: unknown) => e);
    expect(isMissingDay(refused)).toBe(true);
    expect(await statusOf(t.observer, id)).toBe('running');

    const bad = await t.observer
      .query(`insert into pgqueue.jobs (kind) values ('')`)
      .catch((e: unknown) => e);
    expect(isMissingDay(bad)).toBe(false);
  });

  test('sends history to the overflow table, where the view finds it and a resend is `already`', async () => {
    const ids = await insertJobs(t.observer, 2);
    const worker = await startWorker(t.observer);
    const { jobs } = await exchange(t.observer, { worker, want: 2 });
    const [first, second] = jobs.map((job) => done(job, { result: '{"n": 1}' }));
    const cancelled = { id: second?.id ?? '', leaseNo: 1, action: 'cancel' as const };
    const settlements = [first ?? cancelled, cancelled];
    const answer = await exchange(t.observer, { worker, settlements, overflow: true });
    expect(answer.answers).toEqual({});
    expect(await t.store.getJob(ids[0] ?? '')).toMatchObject({ status: 'done', result: { n: 1 } });
    expect(await t.store.getJob(ids[1] ?? '')).toMatchObject({ status: 'cancelled' });
    const again = await exchange(t.observer, { worker, settlements, overflow: true });
    expect(Object.values(again.answers)).toEqual(['already', 'already']);

    expect(await t.store.deleteOverflow(60_000, 10)).toBe(0);
    expect(await t.store.deleteOverflow(-60_000, 10)).toBe(2);
  });

  test('does not stop a cancel by hand', async () => {
    const [id = ''] = await insertJobs(t.observer, 1);
    expect(await t.store.cancel(id)).toBe('cancelled');
    expect(await statusOf(t.observer, id)).toBe('cancelled');
  });
});

test('a table that a person made is not dropped, although it is called like a day', async () => {
  await t.observer.query('create table pgqueue.done_jobs_20200101 (kept text)');
  await t.observer.query('create table pgqueue.done_jobs_20261331 (kept text)');
  await t.store.dropOldDays(KEEP);
  const kept = await t.observer.rows(
    `select relname from pg_class where relname in ('done_jobs_20200101', 'done_jobs_20261331')`,
  );
  expect(kept).toHaveLength(2);
});
