import { cancel, retryMany } from '../../lib/store/statements/jobs.js';
import { enqueueMany, type JobRow } from '../../lib/store/statements/enqueue-many.js';
import {
  done,
  draft,
  exchange,
  openStore,
  startWorker,
  statusOf,
  untilWaiting,
  type Session,
  type TestStore,
} from '../support/store.js';

let t: TestStore;
let a: Session;
let b: Session;

beforeAll(async () => {
  t = await openStore();
  [a, b] = await Promise.all([t.connect(), t.connect()]);
});
afterAll(() => t.close());
beforeEach(() => t.observer.query('truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs'));

const keyed = (dedupeKey: string): JobRow => draft({ dedupeKey });

async function enqueue(session: Session, key: string): Promise<{ id: string; inserted: boolean }> {
  const [[row] = []] = await session.run(enqueueMany, { jobs: [keyed(key)] });
  if (typeof row?.id !== 'string') throw new Error('There is no id');
  return { id: row.id, inserted: row.inserted };
}

/** A failed job with the key, whose attempts are spent. */
async function failedJob(key: string): Promise<string> {
  const worker = await startWorker(t.observer);
  const { id } = await enqueue(t.observer, key);
  const { jobs } = await exchange(t.observer, { worker, want: 1 });
  const settlements = jobs.map(({ id, leaseNo }) => ({ id, leaseNo, action: 'fail' as const }));
  await exchange(t.observer, { worker, settlements });
  return id;
}

const holders = async (key: string): Promise<string[]> => {
  const rows = await t.observer.rows<{ id: string }>(
    'select id from pgqueue.jobs where dedupe_key = $1',
    [key],
  );
  return rows.map(({ id }) => id);
};

describe('two enqueues of one key', () => {
  test('B09: when the first rolls back, the second has waited for it and is the one that exists', async () => {
    await a.begin();
    const first = await enqueue(a, 'key');
    const second = enqueue(b, 'key');
    await untilWaiting(t.observer, b);
    await a.rollback();

    const { id, inserted } = await second;
    expect(inserted).toBe(true);
    expect(id).not.toBe(first.id);
    expect(await holders('key')).toEqual([id]);
  });

  test('B09: when the first commits, the second is told its id', async () => {
    await a.begin();
    const first = await enqueue(a, 'key');
    const second = enqueue(b, 'key');
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await second).toEqual({ id: first.id, inserted: false });
    expect(await holders('key')).toEqual([first.id]);
  });

  test('the second becomes a job of its own when the holder is settled while it waits', async () => {
    const worker = await startWorker(a);
    const first = await enqueue(a, 'key');
    const { jobs } = await exchange(a, { worker, want: 1 });
    await a.begin();
    await exchange(a, { worker, settlements: jobs.map((job) => done(job)) });
    const second = enqueue(b, 'key');
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await second).toEqual({ id: expect.not.stringMatching(first.id), inserted: true });
  });

  test('the second looks again when the holder is settled before it has read who that is', async () => {
    const worker = await startWorker(a);
    await enqueue(a, 'first');
    const { jobs } = await exchange(a, { worker, want: 1 });
    await a.begin();
    const later = await enqueue(a, 'later');
    // Its insert passes over `first`, whose holder is committed, and then waits for `later`.
    const second = b.run(enqueueMany, { jobs: ['first', 'later'].map(keyed) });
    await untilWaiting(t.observer, b);
    await exchange(t.observer, { worker, settlements: jobs.map((job) => done(job)) });
    await a.commit();

    const [[first, duplicate] = []] = await second;
    expect(first).toMatchObject({ id: expect.any(String), inserted: true });
    expect(first?.id).not.toBe(jobs[0]?.id);
    expect(duplicate).toMatchObject({ id: later.id, inserted: false });
  });

  test('lists that hold the same keys in opposite orders do not wait for each other', async () => {
    const keys = ['a', 'm', 'z'];
    const c = await t.connect();
    await c.begin();
    await enqueue(c, 'm');
    const up = a.run(enqueueMany, { jobs: keys.map(keyed) });
    await untilWaiting(t.observer, a);
    const down = b.run(enqueueMany, { jobs: keys.toReversed().map(keyed) });
    await untilWaiting(t.observer, b);
    await c.rollback();

    const [[first = []], [second = []]] = await Promise.all([up, down]);
    expect(first.map(({ inserted }) => inserted)).toEqual([true, true, true]);
    expect(second.map(({ id }) => id)).toEqual(first.map(({ id }) => id).toReversed());
  });
});

describe('B11: the key of a job', () => {
  test('is held in every pending state: queued, running, waiting for its retry, scheduled', async () => {
    const worker = await startWorker(a);
    const { id } = await enqueue(a, 'key');
    const held = { id, inserted: false };
    expect(await enqueue(b, 'key')).toEqual(held);
    await exchange(a, { worker, want: 1 });
    expect(await enqueue(b, 'key')).toEqual(held);
    const retry = { id, leaseNo: 1, action: 'retry' as const, delayMs: 60_000 };
    await exchange(a, { worker, settlements: [retry] });
    expect(await statusOf(a, id)).toBe('scheduled');
    expect(await enqueue(b, 'key')).toEqual(held);
    await a.query('update pgqueue.jobs set run_at = now()');
    expect((await exchange(a, { worker, want: 1 })).jobs).toMatchObject([{ id, attempt: 2 }]);
    await exchange(a, { worker, settlements: [done({ id, leaseNo: 2 })] });
    expect((await enqueue(b, 'key')).inserted).toBe(true);
  });

  test.each(['failed', 'cancelled'] as const)('is free again once the job is %s', async (end) => {
    const first = end === 'failed' ? await failedJob('key') : (await enqueue(a, 'key')).id;
    if (end === 'cancelled') expect(await a.run(cancel, first)).toEqual(['cancelled']);
    const { id, inserted } = await enqueue(b, 'key');
    expect(inserted).toBe(true);
    expect(id).not.toBe(first);
  });
});

describe('B11: a retry by hand against a new enqueue of the same key', () => {
  test('after the enqueue names the job that holds the key, and leaves both rows as they are', async () => {
    const failed = await failedJob('key');
    const holder = await enqueue(a, 'key');
    const rows = () =>
      t.observer.rows('select * from pgqueue.all_jobs where dedupe_key = $1 order by id', ['key']);
    const before = await rows();
    const conflict = { id: failed, outcome: 'conflict', holder: holder.id };
    expect(await b.run(retryMany, [failed])).toEqual([conflict]);
    expect(await rows()).toEqual(before);
  });

  test('waits for an enqueue in an open transaction: its commit is a conflict', async () => {
    const failed = await failedJob('key');
    await a.begin();
    const holder = await enqueue(a, 'key');
    const retried = b.run(retryMany, [failed]);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await retried).toEqual([{ id: failed, outcome: 'conflict', holder: holder.id }]);
    expect(await statusOf(a, failed)).toBe('failed');
  });

  test('waits for an enqueue in an open transaction: its rollback lets the retry through', async () => {
    const failed = await failedJob('key');
    await a.begin();
    await enqueue(a, 'key');
    const retried = b.run(retryMany, [failed]);
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await retried).toEqual([{ id: failed, outcome: 'retried', holder: null }]);
    expect(await holders('key')).toEqual([failed]);
  });

  test('makes the enqueue wait, which then is told the id of the retried job', async () => {
    const failed = await failedJob('key');
    await a.begin();
    expect(await a.run(retryMany, [failed])).toMatchObject([{ outcome: 'retried' }]);
    const enqueued = enqueue(b, 'key');
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await enqueued).toEqual({ id: failed, inserted: false });
  });

  test('that rolls back leaves the key to the enqueue and the job failed', async () => {
    const failed = await failedJob('key');
    await a.begin();
    await a.run(retryMany, [failed]);
    const enqueued = enqueue(b, 'key');
    await untilWaiting(t.observer, b);
    await a.rollback();
    const { id, inserted } = await enqueued;
    expect(inserted).toBe(true);
    expect(await holders('key')).toEqual([id]);
    expect(await statusOf(a, failed)).toBe('failed');
  });

  test('retried twice at once, moves the job once', async () => {
    const failed = await failedJob('key');
    await a.begin();
    const first = await a.run(retryMany, [failed]);
    const second = b.run(retryMany, [failed]);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(first).toMatchObject([{ outcome: 'retried' }]);
    expect(await second).toEqual([{ id: failed, outcome: 'not_failed', holder: null }]);
    expect(await holders('key')).toEqual([failed]);
  });

  test('keeps the id, resets the attempts, keeps the errors, and goes on with the lease number', async () => {
    const failed = await failedJob('key');
    await b.run(retryMany, [failed]);
    const worker = await startWorker(a);
    const { jobs } = await exchange(a, { worker, want: 1 });
    expect(jobs).toMatchObject([{ id: failed, attempt: 1, leaseNo: 2 }]);
  });

  test('of a list retries those whose keys are free, and one of two with the same key', async () => {
    const [first, second, free] = [
      await failedJob('key'),
      await failedJob('key'),
      await failedJob('free'),
    ];
    const answers = await b.run(retryMany, [free, second, first, '9000000000000000000', free]);
    expect(answers).toEqual([
      { id: first, outcome: 'retried', holder: null },
      { id: second, outcome: 'conflict', holder: first },
      { id: free, outcome: 'retried', holder: null },
      { id: '9000000000000000000', outcome: 'not_failed', holder: null },
    ]);
  });
});

test('a retry of several takes keys in the order in which enqueue does, so that the two can not deadlock', async () => {
  const [first, second] = [await failedJob('b'), await failedJob('a')];
  await a.begin();
  await enqueue(a, 'a');
  const retried = b.run(retryMany, [first, second]);
  await untilWaiting(t.observer, b);
  // Had the retry begun with the lower id, it would hold this key and wait for the other.
  await enqueue(a, 'b');
  await a.commit();
  const outcomes = (await retried).map(({ outcome }) => outcome);
  expect(outcomes).toEqual(['conflict', 'conflict']);
});
