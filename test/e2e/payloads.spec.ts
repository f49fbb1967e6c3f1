import { InvalidJobError, type JobContext } from 'nestjs-pg-queue';
import { endApps, on, pool, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

let app: TestApp;
let taken: unknown[] = [];
let jobs: JobContext[] = [];

beforeAll(async () => {
  const take = (payload: unknown, job: JobContext) => {
    taken.push(payload);
    jobs.push(job);
  };
  app = await startWith([on('take', take), on(LONG_KIND, take)], { worker: { concurrency: 1 } });
});
beforeEach(() => {
  taken = [];
  jobs = [];
});
afterAll(endApps);

const LONG_KIND = 'k'.repeat(200);

/** How many jobs of a kind that nobody handles have been stored. */
async function countOf(kind: string): Promise<number> {
  const [row] = await app.sql('select count(*)::int as n from pgqueue.all_jobs where kind = $1', [
    kind,
  ]);
  return row.n as number;
}

describe('B01: characters that jsonb refuses', () => {
  it.each([
    ['a NUL in a string', { s: 'a\u0000b' }, 'payload.s'],
    ['a lone high surrogate', { list: [{ s: '\ud83d' }] }, 'payload.list[0].s'],
    ['a lone low surrogate', ['x', '\udc00'], 'payload[1]'],
    ['a NUL in a key', { 'a\u0000b': 1 }, 'payload'],
    ['half of a pair in a key', { deep: { '\ud83d': 1 } }, 'payload.deep'],
  ])('%s is refused with its path, and the transaction stays usable', async (_what, bad, path) => {
    await app.queue.transaction(async (tx) => {
      const error: unknown = await app.queue
        .enqueue('refused', bad, { tx })
        .catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(InvalidJobError);
      expect((error as InvalidJobError).code).toBe('INVALID_JOB');
      expect((error as InvalidJobError).path).toContain(path);
      await app.queue.enqueue('take', 'good', { tx });
    });
    await eventually(() => expect(taken).toEqual(['good']));
    expect(await countOf('refused')).toBe(0);
  });

  it.each([
    ['the kind', 'kind', () => app.queue.enqueue('refused\u0000', {})],
    ['the kind (half of a pair)', 'kind', () => app.queue.enqueue('refused\ud83d', {})],
    ['the dedupe key', 'dedupe', () => app.queue.enqueue('refused', {}, { dedupe: 'a\u0000' })],
    [
      'the dedupe key (object form)',
      'dedupe.key',
      () => app.queue.enqueue('refused', {}, { dedupe: { key: '\udc00' } }),
    ],
    ['the queue', 'queue', () => app.queue.enqueue('refused', {}, { queue: '\u0000' })],
    [
      'the meta',
      'meta.trace',
      () => app.queue.enqueue('refused', {}, { meta: { trace: '\u0000' } }),
    ],
  ])('in %s they are refused before any SQL', async (_where, path, enqueue) => {
    await expect(enqueue()).rejects.toMatchObject({ code: 'INVALID_JOB', path });
    expect(await countOf('refused')).toBe(0);
  });

  it('the six plain characters of an escape, and whole emoji, arrive as they were', async () => {
    const control = {
      escape: String.raw`\u0000`,
      doubled: String.raw`\\u0000 \ud83d`,
      emoji: '👩‍👩‍👧 🎉',
      [String.raw`key \u0000 🎉`]: '\u0001\u001f\u2028',
    };
    await app.queue.enqueue('take', control);
    await eventually(() => expect(taken).toHaveLength(1));
    expect(taken[0]).toEqual(control);
  });
});

describe('B03: every JSON value, and no other', () => {
  it.each([
    ['an array', [1, { a: 2 }], 'array'],
    ['an empty array', [], 'array'],
    ['a string', 'x', 'string'],
    ['a number', 42, 'number'],
    ['false', false, 'boolean'],
    ['null', null, 'null'],
  ])('%s reaches the handler as it was', async (_what, payload, type) => {
    const { id } = await app.queue.enqueue('take', payload);
    await eventually(() => expect(taken).toHaveLength(1));
    expect(taken[0]).toEqual(payload);
    await eventually(async () => expect(await app.status(id)).toBe('done'));
    const [row] = await app.sql(
      'select jsonb_typeof(payload) as type from pgqueue.all_jobs where id = $1',
      [id],
    );
    expect(row).toEqual({ type });
    expect((await app.queue.get(id))?.payload).toEqual(payload);
  });

  const circular: Record<string, unknown> = {};
  circular.inner = { circular };
  const bad: [string, unknown, string][] = [
    ['a bigint', { n: 1n }, 'payload.n'],
    ['an object that contains itself', circular, 'payload.inner.circular'],
    ['NaN', [Number.NaN], 'payload[0]'],
    ['a function', { f: () => 1 }, 'payload.f'],
    ['a symbol', { s: Symbol('s') }, 'payload.s'],
    ['a Map', { m: new Map() }, 'payload.m'],
  ];

  it.each(bad)('%s is refused, and the transaction stays usable', async (_what, payload, path) => {
    await app.queue.transaction(async (tx) => {
      await expect(app.queue.enqueue('refused', payload, { tx })).rejects.toMatchObject({
        code: 'INVALID_JOB',
        path,
      });
      expect((await tx.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    });
    expect(await countOf('refused')).toBe(0);
  });

  it.each(bad)('with %s among them, enqueueMany inserts none', async (_what, payload, path) => {
    const jobs = [{ payload: 1 }, { payload }, { payload: 3 }].map((job) => ({
      kind: 'refused',
      ...job,
    }));
    await expect(app.queue.enqueueMany(jobs)).rejects.toMatchObject({ path: `jobs[1].${path}` });
    expect(await countOf('refused')).toBe(0);
  });
});

it('B04: ids beyond 2^53 are exact everywhere, and finishing one changes only that one', async () => {
  await app.sql(`select setval('pgqueue.jobs_id_seq', 9007199254740992)`);
  const results = await app.queue.enqueueMany([
    { kind: 'take', payload: 0 },
    { kind: 'take', payload: 1, delay: '1h' },
    { kind: 'take', payload: 2 },
  ]);
  const ids = results.map(({ id }) => id);
  expect(ids).toEqual(['9007199254740993', '9007199254740994', '9007199254740995']);
  await eventually(() => expect(taken).toEqual([0, 2]));
  expect(jobs.map((job) => job.id)).toEqual([ids[0], ids[2]]);
  expect(jobs[0]?.idempotencyKey).toContain(ids[0]);
  await eventually(async () => expect(await app.status(ids[2] ?? '')).toBe('done'));
  const records = await Promise.all(ids.map((id) => app.queue.get(id)));
  expect(records.map((record) => record?.id)).toEqual(ids);
  expect(records.map((record) => record?.status)).toEqual(['done', 'scheduled', 'done']);
});

describe('B30: notifications carry no data', () => {
  it('a payload of 20 kB is committed and arrives', async () => {
    const text = 'x'.repeat(20_000);
    await app.queue.enqueue('take', { text });
    await eventually(() => expect(taken).toEqual([{ text }]));
  });

  it('a kind of 200 characters is committed and runs', async () => {
    await app.queue.enqueue(LONG_KIND, {});
    await eventually(() => expect(jobs.map(({ kind }) => kind)).toEqual([LONG_KIND]));
  });

  it('10,000 jobs in one transaction are committed, and ring once a queue', async () => {
    const client = await pool.connect();
    const heard: (string | undefined)[] = [];
    client.on('notification', ({ payload }) => heard.push(payload));
    try {
      const [{ channel }] = await app.sql('select pgqueue.doorbell() as channel');
      await client.query(`listen ${channel}`);
      await app.queue.transaction(async (tx) => {
        for (let batch = 0; batch < 10; batch++) {
          const jobs = Array.from({ length: 1_000 }, (_, n) => ({ kind: 'many', payload: { n } }));
          await app.queue.enqueueMany(jobs, { tx });
        }
      });
      expect(await countOf('many')).toBe(10_000);
      await client.query('select 1');
      expect(heard).toEqual(['default']);
    } finally {
      client.removeAllListeners('notification');
      client.release(true);
    }
  });
});
