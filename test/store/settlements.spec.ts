import { declareDead, rescue } from '../../lib/store/statements/workers.js';
import type { ClaimedJob, Settlement } from '../../lib/store/statements/exchange.js';
import {
  done,
  endLease,
  exchange,
  insertJobs,
  jobRow,
  openStore,
  startWorker,
  statusOf,
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

const error = { name: 'Error', message: 'no luck' };

async function claim(count: number): Promise<{ worker: string; jobs: readonly ClaimedJob[] }> {
  const worker = await startWorker(a);
  await insertJobs(a, count);
  const { jobs } = await exchange(a, { worker, want: count });
  return { worker, jobs };
}

function only(jobs: readonly ClaimedJob[]): ClaimedJob {
  const [job] = jobs;
  if (job === undefined || jobs.length > 1) throw new Error(`${jobs.length} jobs instead of one`);
  return job;
}

describe('a settlement against a rescue', () => {
  test('Invariant 3: a settlement that comes first wins, and the rescue passes over the job', async () => {
    const { worker, jobs } = await claim(1);
    const { id } = only(jobs);
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);

    await a.begin();
    const settled = await exchange(a, { worker, settlements: jobs.map((job) => done(job)) });
    const rescued = await b.run(rescue, { strays: true, limit: 10 });
    await a.commit();

    expect(settled.answers).toEqual({});
    expect(rescued).toEqual([]);
    expect(await statusOf(a, id)).toBe('done');
    // The rescue has seen the job still, so the worker's row has stayed for the next one.
    expect(await a.rows('select from pgqueue.workers where id = $1', [worker])).toHaveLength(1);
    await b.run(rescue, { strays: true, limit: 10 });
    expect(await a.rows('select from pgqueue.workers where id = $1', [worker])).toEqual([]);
  });

  test('Invariant 2: a rescue that comes first wins, and the settlement changes nothing', async () => {
    const { worker, jobs } = await claim(1);
    const { id } = only(jobs);
    const settlements = jobs.map((job) => done(job));
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);

    await b.begin();
    expect(await b.run(rescue, { strays: false, limit: 10 })).toMatchObject([{ id }]);
    // It does not wait; while the rescue may still roll back, it can only be asked to come again.
    const meanwhile = await exchange(a, { worker, settlements });
    await b.commit();
    const afterwards = await exchange(a, { worker, settlements });

    expect(meanwhile.answers).toEqual({ [id]: 'busy' });
    expect(afterwards.answers).toEqual({ [id]: 'lost' });
    expect(await jobRow(a, id)).toMatchObject({ status: 'queued', locked_by: null });
  });

  test('a rescue that rolls back leaves the job to its settlement', async () => {
    const { worker, jobs } = await claim(1);
    const settlements = jobs.map((job) => done(job));
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);
    await b.begin();
    await b.run(rescue, { strays: false, limit: 10 });
    await b.rollback();
    expect((await exchange(a, { worker, settlements })).answers).toEqual({});
    expect(await statusOf(a, only(jobs).id)).toBe('done');
  });

  test('B14: a worker that comes back late changes nothing of the job that another one runs', async () => {
    const { worker, jobs } = await claim(1);
    const { id } = only(jobs);
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);
    await b.run(rescue, { strays: false, limit: 10 });
    const other = await startWorker(b);
    expect((await exchange(b, { worker: other, want: 1 })).jobs).toMatchObject([
      { id, attempt: 2 },
    ]);

    for (const leaseNo of [1, 2]) {
      for (const action of ['retry', 'release', 'fail', 'cancel'] as const) {
        const settlements = [{ id, leaseNo, action, error }];
        expect((await exchange(a, { worker, settlements })).answers).toEqual({ [id]: 'lost' });
      }
      const settlements = [done({ id, leaseNo })];
      expect((await exchange(a, { worker, settlements })).answers).toEqual({ [id]: 'lost' });
    }
    expect(await jobRow(a, id)).toMatchObject({ locked_by: other, attempts: 2, lease_no: 2 });
    const settlements = [done({ id, leaseNo: 2 })];
    expect((await exchange(b, { worker: other, settlements })).answers).toEqual({});
  });
});

describe('a settlement sent again after its answer was lost', () => {
  const ACTIONS: Record<string, (job: ClaimedJob) => Settlement> = {
    'done and kept': (job) => done(job, { result: '[1]' }),
    'done and not kept': (job) => done(job, { keep: false }),
    'retry at once': ({ id, leaseNo }) => ({ id, leaseNo, action: 'retry', error }),
    'retry later': ({ id, leaseNo }) => ({ id, leaseNo, action: 'retry', delayMs: 60_000, error }),
    release: ({ id, leaseNo }) => ({ id, leaseNo, action: 'release' }),
    'release until later': ({ id, leaseNo }) => ({
      id,
      leaseNo,
      action: 'release',
      runAt: new Date(Date.now() + HOUR),
    }),
    fail: ({ id, leaseNo }) => ({ id, leaseNo, action: 'fail', error }),
    cancel: ({ id, leaseNo }) => ({ id, leaseNo, action: 'cancel', error }),
  };
  const HOUR = 3_600_000;
  const everything = () =>
    t.observer.rows(`
      select 'pending' as place, to_jsonb(j) as job from pgqueue.jobs j
      union all select 'failed', to_jsonb(f) from pgqueue.failed_jobs f
      union all select 'done', to_jsonb(d) from pgqueue.done_jobs d`);

  test.each(Object.keys(ACTIONS))('%s: is answered `already` and changes nothing', async (name) => {
    const { worker, jobs } = await claim(1);
    const job = only(jobs);
    const settlement = ACTIONS[name]?.(job) as Settlement;
    expect((await exchange(a, { worker, settlements: [settlement] })).answers).toEqual({});
    const before = await everything();

    const again = await exchange(b, { worker, settlements: [settlement] });

    expect(again.answers).toEqual({ [job.id]: 'already' });
    expect(await everything()).toEqual(before);
    expect(before).toHaveLength(name === 'done and not kept' ? 0 : 1);
  });

  test('retry: is `already` too when the next attempt has begun, here or elsewhere', async () => {
    const { worker, jobs } = await claim(1);
    const { id, leaseNo } = only(jobs);
    const settlements: Settlement[] = [{ id, leaseNo, action: 'retry', error }];
    await exchange(a, { worker, settlements });
    const other = await startWorker(b);
    expect((await exchange(b, { worker: other, want: 1 })).jobs).toMatchObject([
      { id, attempt: 2 },
    ]);
    expect((await exchange(a, { worker, settlements })).answers).toEqual({ [id]: 'already' });
    expect(await jobRow(a, id)).toMatchObject({ locked_by: other, lease_no: 2 });
  });
});

describe('a batch', () => {
  test('with two lease numbers settles each job under its own, and none under the other', async () => {
    const worker = await startWorker(a);
    await insertJobs(a, 4);
    const first = await exchange(a, { worker, want: 2 });
    const settlements = first.jobs.map(({ id, leaseNo }) => ({
      id,
      leaseNo,
      action: 'release' as const,
    }));
    const { jobs } = await exchange(a, { worker, settlements, want: 4 });
    const leases = new Map(jobs.map(({ id, leaseNo }) => [id, leaseNo]));
    expect([...leases.values()].sort()).toEqual([1, 1, 2, 2]);

    // Both numbers occur in the batch, each with the wrong ids.
    const swapped = jobs.map(({ id, leaseNo }) => done({ id, leaseNo: 3 - leaseNo }));
    const refused = await exchange(a, { worker, settlements: swapped });
    expect(Object.keys(refused.answers).sort()).toEqual([...leases.keys()].sort());
    expect(Object.values(refused.answers)).not.toContain('already');
    for (const id of leases.keys()) expect((await jobRow(a, id)).status).toBe('running');

    const right = await exchange(a, { worker, settlements: jobs.map((job) => done(job)) });
    expect(right.answers).toEqual({});
    for (const id of leases.keys()) expect(await statusOf(a, id)).toBe('done');
  });

  test('answers `busy` for a row that somebody has locked, settles the others, and waits for nothing', async () => {
    const { worker, jobs } = await claim(6);
    const [locked, lockedToo, ...free] = jobs as [ClaimedJob, ClaimedJob, ...ClaimedJob[]];
    await a.query(`set lock_timeout = '1ms'`);
    await b.begin();
    await b.query('select from pgqueue.jobs where id = any ($1) for update', [
      [locked.id, lockedToo.id],
    ]);
    const settlements: Settlement[] = [
      done(locked),
      { id: lockedToo.id, leaseNo: 1, action: 'fail', error },
      ...free.map((job) => done(job)),
    ];
    const { answers } = await exchange(a, { worker, settlements });
    expect(answers).toEqual({ [locked.id]: 'busy', [lockedToo.id]: 'busy' });
    for (const { id } of free) expect(await statusOf(a, id)).toBe('done');
    await b.rollback();
    expect((await exchange(a, { worker, settlements })).answers).toEqual(
      Object.fromEntries(free.map(({ id }) => [id, 'already'])),
    );
  });

  test('Invariant 1: of all actions leaves every job in exactly one table, with what was reported', async () => {
    const { worker, jobs } = await claim(6);
    const [kept, unkept, retried, released, failed, cancelled] = jobs as ClaimedJob[];
    const ids = jobs.map(({ id }) => id);
    const settlements = [
      done(kept as ClaimedJob, { result: '{"n": 1}' }),
      done(unkept as ClaimedJob, { keep: false, result: '2' }),
      ...([retried, released, failed, cancelled] as ClaimedJob[]).map(({ id, leaseNo }, index) => ({
        id,
        leaseNo,
        action: (['retry', 'release', 'fail', 'cancel'] as const)[index] ?? 'fail',
        error: { name: 'Error', message: `reason ${index}` },
      })),
    ];
    expect((await exchange(a, { worker, settlements })).answers).toEqual({});
    const rows = await a.rows(
      `select id, status, attempts, locked_by, last_error, result from pgqueue.all_jobs
        where id = any ($1) order by id`,
      [ids],
    );
    const row = (
      status: string,
      locked_by: string | null,
      last_error: string | null,
      rest = {},
    ) => ({
      id: expect.any(String),
      status,
      attempts: 1,
      locked_by,
      last_error,
      result: null,
      ...rest,
    });
    expect(rows).toEqual([
      row('done', worker, null, { result: { n: 1 } }),
      row('queued', null, 'reason 0'),
      row('queued', null, 'reason 1', { attempts: 0 }),
      row('failed', worker, 'reason 2'),
      row('cancelled', worker, 'reason 3'),
    ]);
  });

  test('keeps the latest twenty errors of a job', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(a, 1);
    await a.query('update pgqueue.jobs set max_attempts = 100');
    let settlements: Settlement[] = [];
    for (let attempt = 1; attempt <= 23; attempt += 1) {
      const { jobs } = await exchange(a, { worker, settlements, want: 1 });
      const { leaseNo } = only(jobs);
      const failure = { name: 'Error', message: `attempt ${attempt}` };
      settlements = [{ id, leaseNo, action: 'retry', error: failure }];
    }
    await exchange(a, { worker, settlements });
    const errors = await a.value<{ attempt: number; message: string }[]>(
      'select errors from pgqueue.jobs',
    );
    expect(errors.map(({ attempt }) => attempt)).toEqual(
      Array.from({ length: 20 }, (_, i) => i + 4),
    );
    expect(errors.at(-1)).toMatchObject({ message: 'attempt 23', worker, lease_no: 23 });
  });
});
