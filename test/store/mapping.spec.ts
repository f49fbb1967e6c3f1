import { Pool, types } from 'pg';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { Database } from '../../lib/store/database.js';
import { JobStore } from '../../lib/store/job-store.js';
import { listDays } from '../../lib/store/statements/history-days.js';
import {
  done,
  draft as job,
  exchange,
  openStore,
  startWorker,
  type TestStore,
} from '../support/store.js';

// Rows are read as text, so that what an application does to its driver changes nothing.

interface Parsers {
  getTypeParser(oid: number): (text: string) => unknown;
  setTypeParser(oid: number, parser: (text: string) => unknown): void;
}

const BEYOND_2_53 = '9007199254740993';

let t: TestStore;

beforeEach(async () => {
  t = await openStore();
});
afterEach(() => t.close());

/** The same answers, whatever `store` runs on. */
async function expectRightAnswers(store: JobStore): Promise<void> {
  await t.observer.query(
    `select setval('pgqueue.jobs_id_seq'::regclass, ${BigInt(BEYOND_2_53) - 1n})`,
  );
  const runAt = '2040-02-03T04:05:06.789Z';
  const enqueued = await store.enqueueMany([
    job({ payload: '[1, "\\\\u0000 {}, \\"", null]', dedupeKey: 'key' }),
    job({ kind: 'other', queue: 'mail', priority: -5, maxAttempts: 2, dedupeKey: 'key' }),
    job({ dedupeKey: 'key' }),
    job({ runAt, meta: '{"tenant": "7"}' }),
    job({ delayMs: 3_600_000, kind: 'later' }),
  ]);
  const id = (index: number): string => enqueued[index]?.id ?? '';
  expect(enqueued.map(({ ordinal }) => ordinal)).toEqual([0, 1, 2, 3, 4]);
  expect(enqueued.map(({ inserted }) => inserted)).toEqual([true, true, false, true, true]);
  expect(id(0)).toBe(BEYOND_2_53);
  expect(id(2)).toBe(id(0));
  expect(new Set(enqueued.map((row) => row.id)).size).toBe(4);

  const claimedAt = Date.now();
  const worker = await startWorker(t.observer, { queues: ['default', 'mail'] });
  const { jobs } = await exchange(t.observer, {
    worker,
    lanes: [
      { queue: 'default', only: ['k'], want: 5 },
      { queue: 'mail', only: ['other'], want: 5 },
    ],
  });
  expect(jobs.map((claimed) => claimed.id).sort()).toEqual([id(0), id(1)]);
  expect(Math.abs((jobs[0]?.createdAt ?? 0) - claimedAt)).toBeLessThan(60_000);
  await exchange(t.observer, {
    worker,
    settlements: [
      done({ id: id(0), leaseNo: 1 }, { result: '{"a": [null]}' }),
      { id: id(1), leaseNo: 1, action: 'fail', error: { name: 'TypeError', message: 'ö"\'{}' } },
    ],
  });

  const first = await store.getJob(id(0));
  expect(first).toMatchObject({
    id: BEYOND_2_53,
    queue: 'default',
    kind: 'k',
    payload: [1, '\\u0000 {}, "', null],
    status: 'done',
    priority: 0,
    attempts: 1,
    maxAttempts: 5,
    lockedBy: worker,
    dedupeKey: 'key',
    lastError: null,
    errors: [],
    meta: null,
    result: { a: [null] },
  });
  for (const instant of [first?.runAt, first?.createdAt, first?.finishedAt]) {
    expect(instant).toBeInstanceOf(Date);
    expect(Math.abs(Number(instant) - claimedAt)).toBeLessThan(60_000);
  }
  expect(await store.getJob(id(1))).toMatchObject({
    status: 'failed',
    priority: -5,
    lastError: 'ö"\'{}',
    errors: [{ attempt: 1, at: expect.any(String), name: 'TypeError', message: 'ö"\'{}', worker }],
    finishedAt: expect.any(Date),
    result: null,
  });
  const scheduled = await store.getJob(id(3));
  expect(scheduled).toMatchObject({ status: 'scheduled', meta: { tenant: '7' }, finishedAt: null });
  expect(scheduled?.runAt.toISOString()).toBe(runAt);
  expect(await store.getJob('9000000000000000000')).toBeUndefined();

  const filtered = (filter: object) => store.failedIds(filter, '0', 10);
  expect(await filtered({})).toEqual([id(1)]);
  expect(await filtered({ kind: 'other', queue: 'mail' })).toEqual([id(1)]);
  expect(await filtered({ kind: 'k' })).toEqual([]);
  expect(await filtered({ failedAfter: new Date(Date.now() - 60_000) })).toEqual([id(1)]);
  expect(await filtered({ failedBefore: new Date(Date.now() - 60_000) })).toEqual([]);
  expect(await store.failedIds({}, id(1), 10)).toEqual([]);

  expect(await store.countJobs()).toEqual([
    { status: 'scheduled', waitsFor: 'time', count: 2 },
    { status: 'failed', waitsFor: null, count: 1 },
  ]);
  expect(await store.retryMany([id(1), id(0)])).toEqual([
    { id: id(0), outcome: 'not_failed', holder: null },
    { id: id(1), outcome: 'retried', holder: null },
  ]);
  expect(await store.cancel(id(3))).toBe('cancelled');
  expect(await store.deleteFailed(0, 10)).toBe(0);
  expect(await store.listOverdue()).toEqual([]);
  expect(await store.heartbeat(worker, 60_000, 10_000)).toEqual({ alive: true, overdue: [] });
  expect(await store.takeTask('failed', 60_000)).toBe(true);
  expect(await store.takeTask('failed', 60_000)).toBe(false);

  const days = await store.database.callers.run(listDays, 7);
  expect(days.map(({ age, state }) => [age, state])).toEqual(
    [0, -1, -2, -3, -4, -5, -6, -7].map((age) => [age, 'attached']),
  );
  const today = new Date(days[0]?.from ?? '');
  expect(days[0]).toMatchObject({
    table: `done_jobs_${days[0]?.from.replaceAll('-', '')}`,
    to: new Date(Number(today) + 86_400_000).toISOString().slice(0, 10),
  });
}

test('B04: answers are right, with ids beyond 2^53 as strings', () => expectRightAnswers(t.store));

test('answers are right when the application has changed the type parsers of `pg` for all', async () => {
  const global = types as unknown as Parsers;
  const { TEXT, INT8, INT4, BOOL, JSONB, TIMESTAMPTZ, UUID, DATE, FLOAT8 } = types.builtins;
  const arrays = [1016, 1009, 2951]; // of bigint, text and uuid
  const oids = [TEXT, INT8, INT4, BOOL, JSONB, TIMESTAMPTZ, UUID, DATE, FLOAT8, ...arrays].map(
    Number,
  );
  const before = oids.map((oid) => [oid, global.getTypeParser(oid)] as const);
  for (const oid of oids) global.setTypeParser(oid, () => 'parsed by somebody');
  global.setTypeParser(Number(INT8), Number);
  try {
    await expectRightAnswers(t.store);
  } finally {
    for (const [oid, parser] of before) global.setTypeParser(oid, parser);
  }
});

describe('on a pool of the application’s', () => {
  const odd = {
    getTypeParser: () => () => 'parsed by somebody',
  } as unknown as typeof types;
  const settings = `-c timezone=Asia/Kolkata -c datestyle=German -c intervalstyle=sql_standard -c extra_float_digits=0 -c bytea_output=escape -c standard_conforming_strings=on`;

  test('answers are right, whatever its parsers and its session settings are', async () => {
    const pool = new Pool({ connectionString: t.url, types: odd, options: settings });
    const database = new Database(resolveOptions({ pool, schema: t.schema }));
    try {
      await expectRightAnswers(new JobStore(database));
    } finally {
      await database.close();
      await pool.end();
    }
  });

  test('a transaction of the application’s takes part in an enqueue with its own parsers', async () => {
    const pool = new Pool({ connectionString: t.url, options: settings });
    const client = await pool.connect();
    try {
      await client.query('begin');
      const [row] = await t.store.enqueueMany([job({ delayMs: 5 })], { tx: client });
      expect(row).toEqual({ ordinal: 0, id: expect.stringMatching(/^\d+$/), inserted: true });
      expect(await t.store.getJob(row?.id ?? '')).toBeUndefined();
      await client.query('commit');
      expect(await t.store.getJob(row?.id ?? '')).toMatchObject({ kind: 'k' });
    } finally {
      client.release();
      await pool.end();
    }
  });
});

test('enqueueMany answers in the order of its list, however the rows are sorted by key', async () => {
  const keys = ['z', 'a', null, 'm', 'a', 'z', null, 'b'];
  const rows = await t.store.enqueueMany(
    keys.map((dedupeKey, n) => job({ dedupeKey, payload: `${n}` })),
  );
  const payloads = await Promise.all(
    rows.map(async ({ id }) => (await t.store.getJob(id ?? ''))?.payload),
  );
  expect(payloads).toEqual([0, 1, 2, 3, 1, 0, 6, 7]);
  expect(rows.map(({ inserted }) => inserted)).toEqual([
    true,
    true,
    true,
    true,
    false,
    false,
    true,
    true,
  ]);
});

test('enqueueMany stores all or nothing', async () => {
  const rows = [job(), job({ payload: '"\\u0000"' }), job()];
  await expect(t.store.enqueueMany(rows)).rejects.toMatchObject({ code: '22P05' });
  await expect(t.store.enqueueMany([job(), job({ kind: '' })])).rejects.toMatchObject({
    code: '23514',
  });
  expect(await t.observer.rows('select from pgqueue.jobs')).toEqual([]);
});
