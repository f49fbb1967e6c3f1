import type { TransactionHandle } from 'nestjs-pg-queue';
import pg from 'pg';
import { DATABASE_URL, endApps, pool, startWith, type TestApp } from '../support/app.js';

let app: TestApp;

beforeAll(async () => {
  app = await startWith([], { worker: false });
});
afterAll(endApps);

/** Enqueues three jobs through `tx`, a duplicate among them, and answers the outcomes. */
async function enqueueThrough(tx: TransactionHandle, key: string): Promise<string[]> {
  const one = await app.queue.enqueue('kind', { n: 1 }, { tx, dedupe: key });
  const two = await app.queue.enqueueMany(
    [
      { kind: 'kind', payload: { n: 2 }, dedupe: key },
      { kind: 'kind', payload: { n: 3 }, priority: 3, delay: '1h', meta: { trace: 'abc' } },
    ],
    { tx },
  );
  expect(two[0]?.id).toBe(one.id);
  expect(two[1]?.id).toMatch(/^\d+$/);
  return [one, ...two].map(({ outcome }) => outcome);
}

const OUTCOMES = ['inserted', 'duplicate', 'inserted'];

async function committed(key: string): Promise<number> {
  const [row] = await app.sql('select count(*)::int as n from pgqueue.jobs where dedupe_key = $1', [
    key,
  ]);
  return row.n as number;
}

describe.each([
  ['a pg client', (client: pg.ClientBase): TransactionHandle => client],
  [
    'an object that answers rows, as a TypeORM manager does',
    (client: pg.ClientBase): TransactionHandle => ({
      query: async (text, values) => (await client.query(text, values)).rows,
    }),
  ],
  [
    'an object that answers { rows } and nothing else',
    (client: pg.ClientBase): TransactionHandle => ({
      query: async (text, values) => ({ rows: (await client.query(text, values)).rows }),
    }),
  ],
])('enqueue through %s', (how, handleOf) => {
  it.each([
    ['commit', 1],
    ['rollback', 0],
  ])('shares its transaction: %s', async (end, jobs) => {
    const key = `${how} ${end}`;
    const client = await pool.connect();
    try {
      await client.query('begin');
      expect(await enqueueThrough(handleOf(client), key)).toEqual(OUTCOMES);
      expect(await committed(key)).toBe(0);
      await client.query(end);
      expect(await committed(key)).toBe(jobs);
    } finally {
      client.release();
    }
  });
});

it('enqueue through the client of queue.transaction shares it too', async () => {
  await app.queue.transaction(async (tx) => {
    expect(await enqueueThrough(tx, 'own')).toEqual(OUTCOMES);
    expect(await committed('own')).toBe(0);
  });
  expect(await committed('own')).toBe(1);
});

it('type parsers of the caller change nothing of what enqueue answers', async () => {
  const TEXT = 25;
  const client = new pg.Client({
    connectionString: DATABASE_URL,
    types: { getTypeParser: (oid: number) => (oid === TEXT ? String : () => 'parsed') },
  });
  await client.connect();
  try {
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 'parsed' }]);
    await client.query('begin');
    expect(await enqueueThrough(client, 'parsers')).toEqual(OUTCOMES);
  } finally {
    await client.end();
  }
});

it.each([
  ['no object', 7],
  ['an object without query', {}],
  ['null', null],
])('a tx that is %s is refused before any SQL', async (_what, tx) => {
  const enqueue = app.queue.enqueue('refused', {}, { tx: tx as unknown as TransactionHandle });
  await expect(enqueue).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('`tx`'),
  });
});

it.each([
  ['nothing', undefined],
  ['a number of rows', 1],
  ['rows that are no list', { rows: {} }],
])(
  'a tx whose query answers %s is told by an error that says what tx may be',
  async (_what, answer) => {
    const tx: TransactionHandle = { query: async () => answer };
    await expect(app.queue.enqueue('refused', {}, { tx })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('TypeORM'),
    });
  },
);
