import {
  done,
  draft,
  exchange,
  openStore,
  startWorker,
  statusOf,
  type TestStore,
} from '../support/store.js';

const HOUR = 3_600_000;
const past = () => new Date(Date.now() - 1_000).toISOString();

let t: TestStore;

beforeAll(async () => {
  t = await openStore();
});
afterAll(() => t.close());
beforeEach(() =>
  t.observer.query(
    'truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs, pgqueue.deadlines',
  ),
);

async function enqueue(...drafts: Parameters<typeof draft>): Promise<string> {
  const [row] = await t.store.enqueueMany(drafts.map((fields) => draft(fields)));
  return row?.id ?? '';
}

function looks(): Promise<{ job_id: string; ahead: number }[]> {
  return t.observer.rows(`
    select job_id, round(extract(epoch from look_at - now()))::int as ahead
      from pgqueue.deadlines order by job_id`);
}

describe('an enqueue', () => {
  test('with deadlines for some of its jobs keeps each with its own', async () => {
    const at = '2040-02-03T04:05:06.789Z';
    const rows = await t.store.enqueueMany([
      draft(),
      draft({ deadline: at }),
      draft(),
      draft({ deadline: 60_000 }),
    ]);
    const jobs = await Promise.all(rows.map(({ id }) => t.store.getJob(id ?? '')));
    expect(jobs.map((job) => job?.deadline?.toISOString())).toEqual([
      undefined,
      at,
      undefined,
      expect.any(String),
    ]);
    expect(Number(jobs[3]?.deadline) - Date.now()).toBeGreaterThan(30_000);
    expect(Number(jobs[3]?.deadline) - Date.now()).toBeLessThan(90_000);
    expect(await looks()).toMatchObject([{ job_id: rows[1]?.id }, { job_id: rows[3]?.id }]);
  });

  test('that a key keeps out changes nothing of the holder', async () => {
    const id = await enqueue({ dedupeKey: 'key', deadline: HOUR });
    const before = await t.store.getJob(id);
    const [again] = await t.store.enqueueMany([draft({ dedupeKey: 'key', deadline: 1_000 })]);
    expect(again).toMatchObject({ id, inserted: false });
    expect(await t.store.getJob(id)).toEqual(before);
  });

  test('by SQL takes one too', async () => {
    const id = await t.observer.value<string>(
      `select pgqueue.enqueue('k', deadline => '2040-01-01T00:00:00Z')`,
    );
    expect((await t.store.getJob(id))?.deadline).toEqual(new Date('2040-01-01T00:00:00Z'));
  });
});

describe('a claim', () => {
  test('cancels a job whose deadline has passed, and takes the others', async () => {
    const worker = await startWorker(t.observer);
    const late = await enqueue({ deadline: past() });
    const inTime = await enqueue({ deadline: HOUR });
    const without = await enqueue({});
    const { jobs, answers } = await exchange(t.observer, { worker, want: 5 });
    expect(jobs.map(({ id }) => id)).toEqual([inTime, without]);
    expect(answers).toEqual({ [late]: 'expired' });
    expect(await t.store.getJob(late)).toMatchObject({
      status: 'cancelled',
      attempts: 0,
      lastError: expect.stringContaining('deadline'),
    });
  });

  test('meets the deadline of a plain insert as well', async () => {
    const worker = await startWorker(t.observer);
    const id = await t.observer.value<string>(
      `insert into pgqueue.jobs (kind, deadline) values ('k', now() - interval '1 s') returning id`,
    );
    expect((await exchange(t.observer, { worker, want: 5 })).jobs).toEqual([]);
    expect(await statusOf(t.observer, id)).toBe('cancelled');
  });

  test('begins no further attempt after the deadline', async () => {
    const worker = await startWorker(t.observer);
    const id = await enqueue({ deadline: HOUR });
    await exchange(t.observer, { worker, want: 1 });
    await t.observer.query(`update pgqueue.jobs set deadline = now() - interval '1 s'`);
    const settlements = [
      { id, leaseNo: 1, action: 'retry' as const, error: { name: 'E', message: 'm' } },
    ];
    const { jobs } = await exchange(t.observer, { worker, settlements, want: 1 });
    expect(jobs).toEqual([]);
    expect(await t.store.getJob(id)).toMatchObject({ status: 'cancelled', attempts: 1 });
  });

  test('before the deadline is in time, however long the job runs', async () => {
    const worker = await startWorker(t.observer);
    const id = await enqueue({ deadline: HOUR });
    const { jobs } = await exchange(t.observer, { worker, want: 1 });
    await t.observer.query(`update pgqueue.jobs set deadline = now() - interval '1 s'`);
    await t.store.expire(10);
    const settlements = jobs.map((job) => done(job));
    expect((await exchange(t.observer, { worker, settlements })).answers).toEqual({});
    expect(await statusOf(t.observer, id)).toBe('done');
  });
});

describe('the housekeeping', () => {
  test('cancels a job that waits behind a backlog, wherever it waits', async () => {
    const queued = await enqueue({ deadline: past(), priority: 9 });
    const scheduled = await enqueue({ deadline: past(), delayMs: HOUR });
    const inTime = await enqueue({ deadline: HOUR / 2 });
    expect(await t.store.expire(10)).toBe(2);
    expect(await statusOf(t.observer, queued)).toBe('cancelled');
    expect(await statusOf(t.observer, scheduled)).toBe('cancelled');
    expect(await statusOf(t.observer, inTime)).toBe('queued');
    expect(await looks()).toMatchObject([{ job_id: inTime }]);
    expect(await t.store.expire(10)).toBe(0);
  });

  test('looks again later at a job that runs, or that somebody has locked', async () => {
    const worker = await startWorker(t.observer);
    const running = await enqueue({ deadline: HOUR });
    await exchange(t.observer, { worker, want: 1 });
    await t.observer.query(`update pgqueue.jobs set deadline = now() - interval '1 s'`);
    await t.observer.query('update pgqueue.deadlines set look_at = now()');
    const locked = await enqueue({ deadline: past() });
    const other = await t.connect();
    await other.begin();
    await other.query('select from pgqueue.jobs where id = $1 for update', [locked]);
    expect(await t.store.expire(10)).toBe(2);
    await other.rollback();
    expect(await statusOf(t.observer, running)).toBe('running');
    expect(await statusOf(t.observer, locked)).toBe('queued');
    expect((await looks()).map(({ ahead }) => ahead)).toEqual([60, 60]);
    await t.observer.query('update pgqueue.deadlines set look_at = now()');
    await t.store.expire(10);
    expect(await statusOf(t.observer, locked)).toBe('cancelled');
  });

  test('forgets a job that has ended within the hour, and one whose deadline was taken away', async () => {
    const worker = await startWorker(t.observer);
    await enqueue({ deadline: 100 * HOUR });
    const without = await enqueue({ deadline: 100 * HOUR });
    const pending = await enqueue({ deadline: 100 * HOUR });
    expect((await looks()).map(({ ahead }) => ahead)).toEqual([3_600, 3_600, 3_600]);
    const { jobs } = await exchange(t.observer, { worker, want: 1 });
    await exchange(t.observer, { worker, settlements: jobs.map((job) => done(job)) });
    await t.observer.query('update pgqueue.jobs set deadline = null where id = $1', [without]);
    await t.observer.query('update pgqueue.deadlines set look_at = now()');
    expect(await t.store.expire(10)).toBe(3);
    expect(await looks()).toEqual([{ job_id: pending, ahead: 3_600 }]);
  });

  test('passes over what another process is at', async () => {
    await enqueue({ deadline: past() });
    const other = await t.connect();
    await other.begin();
    expect(await other.value('select pgqueue.expire_v1(10)')).toBe(1);
    expect(await t.store.expire(10)).toBe(0);
    await other.rollback();
    expect(await t.store.expire(10)).toBe(1);
  });
});
