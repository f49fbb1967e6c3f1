import { complete } from '../../lib/store/statements/control.js';
import type { ClaimedJob, Settlement } from '../../lib/store/statements/exchange.js';
import { cancel } from '../../lib/store/statements/jobs.js';
import { declareDead, rescue } from '../../lib/store/statements/workers.js';
import {
  done,
  endLease,
  exchange,
  insertJobs,
  jobRow,
  openStore,
  startWorker,
  statusOf,
  untilWaiting,
  type Session,
  type TestStore,
} from '../support/store.js';

// The handler's writes and the end of its job are one decision. `a` is the handler's transaction.

let t: TestStore;
let a: Session;
let b: Session;

beforeAll(async () => {
  t = await openStore();
  [a, b] = await Promise.all([t.connect(), t.connect()]);
  await t.observer.query('create table pgqueue.writes (id bigint)');
});
afterAll(() => t.close());
// A test that fails must not leave its transactions in the way of the others.
afterEach(() => Promise.all([a.rollback(), b.rollback()]));
beforeEach(() =>
  t.observer.query(
    'truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs, pgqueue.done_jobs_overflow, pgqueue.writes',
  ),
);

const error = { name: 'Error', message: 'no luck' };

interface Attempt {
  readonly worker: string;
  readonly job: ClaimedJob;
  readonly id: string;
}

async function claimed(): Promise<Attempt> {
  const worker = await startWorker(t.observer);
  await insertJobs(t.observer, 1);
  const [job] = (await exchange(t.observer, { worker, want: 1 })).jobs;
  if (job === undefined) throw new Error('Nothing was claimed');
  return { worker, job, id: job.id };
}

/** What the handler does before its job is completed. */
async function write({ id }: Attempt): Promise<void> {
  await a.begin();
  await a.query('insert into pgqueue.writes values ($1)', [id]);
}

async function completed(
  { worker, job, id }: Attempt,
  { keep = true, result }: { keep?: boolean; result?: string } = {},
): Promise<string | undefined> {
  const { leaseNo } = job;
  return (await a.run(complete, { worker, id, leaseNo, keep, result }))[0];
}

const writes = () => t.observer.rows<{ id: string }>('select id from pgqueue.writes');

test('ends the job with its result when the transaction commits, and not when it rolls back', async () => {
  const attempt = await claimed();
  await write(attempt);
  expect(await completed(attempt, { result: '{"n": 1}' })).toBe('done');
  await a.rollback();
  expect((await jobRow(a, attempt.id)).status).toBe('running');
  await write(attempt);
  expect(await completed(attempt, { result: '{"n": 1}' })).toBe('done');
  expect(await statusOf(b, attempt.id)).toBe('running');
  await a.commit();
  expect(await t.store.getJob(attempt.id)).toMatchObject({
    status: 'done',
    result: { n: 1 },
    lockedBy: attempt.worker,
  });
  expect(await writes()).toEqual([{ id: attempt.id }]);
});

test('keeps no history where none is wanted', async () => {
  const attempt = await claimed();
  expect(await completed(attempt, { keep: false, result: '1' })).toBe('done');
  expect(await statusOf(a, attempt.id)).toBeUndefined();
});

test('goes to the overflow table when today has no partition', async () => {
  const attempt = await claimed();
  const bare = await openStore({ days: false });
  try {
    const worker = await startWorker(bare.observer);
    const [id = ''] = await insertJobs(bare.observer, 1);
    await exchange(bare.observer, { worker, want: 1 });
    const request = { worker, id, leaseNo: 1, keep: true, result: '"r"' };
    expect(await bare.observer.run(complete, request)).toEqual(['done']);
    expect(await bare.store.getJob(id)).toMatchObject({ status: 'done', result: 'r' });
  } finally {
    await bare.close();
  }
  expect(await completed(attempt)).toBe('done');
});

test('a result that the database refuses is replaced by a marker', async () => {
  const attempt = await claimed();
  await write(attempt);
  expect(await completed(attempt, { result: '"\\u0000"' })).toBe('done');
  await a.commit();
  expect((await t.store.getJob(attempt.id))?.result).toEqual({
    notStored: 'the database refused it',
  });
});

describe('against a rescue', () => {
  async function dying(): Promise<Attempt> {
    const attempt = await claimed();
    await write(attempt);
    return attempt;
  }
  async function die({ worker }: Attempt): Promise<void> {
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);
  }

  test('a completion that comes first wins: death waits for it, and there is nothing to rescue', async () => {
    const attempt = await dying();
    await endLease(t.observer, attempt.worker);
    expect(await completed(attempt)).toBe('done');
    const death = b.run(declareDead, attempt.worker);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await death).toEqual(['w']);
    expect(await b.run(rescue, { strays: true, limit: 10 })).toEqual([]);
    expect(await statusOf(a, attempt.id)).toBe('done');
    expect(await writes()).toHaveLength(1);
  });

  test('a worker that was declared dead completes nothing, although its job is still its own', async () => {
    const attempt = await dying();
    await die(attempt);
    expect(await completed(attempt)).toBe('lost');
    await a.rollback();
    expect(await jobRow(a, attempt.id)).toMatchObject({ locked_by: attempt.worker });
    expect(await writes()).toEqual([]);
  });

  test('a completion that waits for a rescue of strays in flight is lost when that commits', async () => {
    const attempt = await dying();
    await b.begin();
    // As a rescue by somebody who holds the worker for dead: the row alone decides.
    await b.query('update pgqueue.jobs set locked_by = null where id = $1', [attempt.id]);
    const outcome = completed(attempt);
    await untilWaiting(t.observer, a);
    await b.commit();
    expect(await outcome).toBe('lost');
    await a.rollback();
    expect(await writes()).toEqual([]);
  });

  test('a completion that waits for a rescue which rolls back ends the job', async () => {
    const attempt = await dying();
    await b.begin();
    await b.query('update pgqueue.jobs set locked_by = null where id = $1', [attempt.id]);
    const outcome = completed(attempt);
    await untilWaiting(t.observer, a);
    await b.rollback();
    expect(await outcome).toBe('done');
    await a.commit();
    expect(await statusOf(a, attempt.id)).toBe('done');
  });

  test('a completion that rolls back leaves the job to the next rescue', async () => {
    const attempt = await dying();
    expect(await completed(attempt)).toBe('done');
    await a.rollback();
    await die(attempt);
    const rescued = await b.run(rescue, { strays: false, limit: 10 });
    expect(rescued).toMatchObject([{ id: attempt.id, outcome: 'freed' }]);
  });

  test('a job that another attempt has is lost, under whatever lease number', async () => {
    const attempt = await dying();
    await die(attempt);
    await b.run(rescue, { strays: false, limit: 10 });
    const other = await startWorker(b);
    const [job] = (await exchange(b, { worker: other, want: 1 })).jobs;
    expect(await completed(attempt)).toBe('lost');
    expect(await completed({ ...attempt, worker: other })).toBe('lost');
    await a.rollback();
    expect(await jobRow(a, attempt.id)).toMatchObject({ locked_by: other, lease_no: job?.leaseNo });
  });
});

describe('against a cancel', () => {
  test('a request that comes first makes the completion fail', async () => {
    const attempt = await claimed();
    await write(attempt);
    await b.begin();
    expect(await b.run(cancel, attempt.id)).toEqual(['requested']);
    const outcome = completed(attempt);
    await untilWaiting(t.observer, a);
    await b.commit();
    expect(await outcome).toBe('cancelled');
    await a.rollback();
    expect(await writes()).toEqual([]);
  });

  test('a completion that comes first wins: the cancel waits, and finds the job finished', async () => {
    const attempt = await claimed();
    await write(attempt);
    expect(await completed(attempt)).toBe('done');
    const answer = b.run(cancel, attempt.id);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await answer).toEqual(['finished']);
    expect(await statusOf(a, attempt.id)).toBe('done');
  });

  test('a completion that rolls back leaves the job to the cancel that waited', async () => {
    const attempt = await claimed();
    await write(attempt);
    await completed(attempt);
    const answer = b.run(cancel, attempt.id);
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await answer).toEqual(['requested']);
  });
});

describe('against a settlement of the same attempt', () => {
  const settlements = (attempt: Attempt): Settlement[] => [
    done(attempt.job),
    { id: attempt.id, leaseNo: attempt.job.leaseNo, action: 'retry', delayMs: 1, error },
    { id: attempt.id, leaseNo: attempt.job.leaseNo, action: 'release' },
    { id: attempt.id, leaseNo: attempt.job.leaseNo, action: 'fail', error },
  ];

  test.each([0, 1, 2, 3])(
    'a settlement (%i) is `busy` meanwhile, and `already` after the commit',
    async (n) => {
      const attempt = await claimed();
      const settlement = settlements(attempt).at(n) as Settlement;
      await write(attempt);
      await completed(attempt, { result: '1' });
      const { worker, id } = attempt;
      const meanwhile = await exchange(b, { worker, settlements: [settlement] });
      expect(meanwhile.answers).toEqual({ [id]: 'busy' });
      await a.commit();
      const after = await exchange(b, { worker, settlements: [settlement] });
      expect(after.answers).toEqual({ [id]: 'already' });
      expect(await t.store.getJob(id)).toMatchObject({ status: 'done', result: 1 });
    },
  );

  test('a settlement that comes first, after a time-out say, makes the completion fail', async () => {
    const attempt = await claimed();
    await write(attempt);
    const [, retry] = settlements(attempt);
    await exchange(b, { worker: attempt.worker, settlements: [retry as Settlement] });
    expect(await completed(attempt)).toBe('lost');
    await a.rollback();
    expect(await writes()).toEqual([]);
    expect((await jobRow(a, attempt.id)).status).toBe('scheduled');
  });

  test('a second completion finds nothing to complete', async () => {
    const attempt = await claimed();
    expect(await completed(attempt)).toBe('done');
    expect(await completed(attempt)).toBe('lost');
  });
});
