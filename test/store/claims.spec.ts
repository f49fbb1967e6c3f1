import {
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

describe('two claims at once', () => {
  test('Invariant 2: take different rows, and neither waits for the other', async () => {
    const [first, second] = [await startWorker(a), await startWorker(b)];
    const ids = await insertJobs(t.observer, 5);
    await b.query(`set lock_timeout = '1ms'`);

    await a.begin();
    const mine = await exchange(a, { worker: first, want: 3 });
    await b.begin();
    const yours = await exchange(b, { worker: second, want: 3 });
    await Promise.all([a.commit(), b.commit()]);

    expect(mine.jobs.map(({ id }) => id)).toEqual(ids.slice(0, 3));
    expect(yours.jobs.map(({ id }) => id)).toEqual(ids.slice(3));
    for (const id of ids.slice(0, 3)) expect((await jobRow(a, id)).locked_by).toBe(first);
    for (const id of ids.slice(3)) expect((await jobRow(a, id)).locked_by).toBe(second);
  });

  test('give the second one nothing where the first has taken all that is due', async () => {
    const [first, second] = [await startWorker(a), await startWorker(b)];
    await insertJobs(t.observer, 2);

    await a.begin();
    await exchange(a, { worker: first, want: 2 });
    const empty = await exchange(b, { worker: second, want: 2 });
    await a.rollback();

    expect(empty).toMatchObject({ worker: 'alive', jobs: [] });
    // What was not committed is there for the next one.
    expect((await exchange(b, { worker: second, want: 2 })).jobs).toHaveLength(2);
  });
});

describe('a claim', () => {
  test('takes by priority, then by due time, then by id, and counts the attempt', async () => {
    const worker = await startWorker(a);
    const rows = await t.observer.rows<{ id: string }>(`
      insert into pgqueue.jobs (kind, priority, run_at) values
        ('k', 5, now() - interval '1 h'), ('k', 0, now()), ('k', 0, now() - interval '1 min'), ('k', -1, now()),
        ('k', 0, now()) returning id`);
    const [late, second, first, urgent, third] = rows.map(({ id }) => id);

    const { jobs } = await exchange(a, { worker, want: 4 });

    expect(jobs.map(({ id }) => id)).toEqual([urgent, first, second, third]);
    expect(jobs[0]).toMatchObject({ attempt: 1, leaseNo: 1, maxAttempts: 5, payload: '{}' });
    expect(await jobRow(a, String(late))).toMatchObject({ status: 'queued', attempts: 0 });
  });

  test('serves each queue as far as asked, and only kinds that the lane names', async () => {
    const worker = await startWorker(a, { kinds: ['a', 'b', 'other'] });
    await t.observer.query(`
      insert into pgqueue.jobs (queue, kind)
        select q, k from unnest(array['mail', 'default']) q, unnest(array['a', 'b', 'other']) k,
                         generate_series(1, 3)`);
    const { jobs } = await exchange(a, {
      worker,
      lanes: [
        { queue: 'mail', only: ['a', 'b'], want: 4 },
        { queue: 'default', only: ['b'], want: 5 },
        { queue: 'nobody', only: ['a'], want: 5 },
      ],
    });
    const taken = jobs.map(({ queue, kind }) => `${queue}/${kind}`);
    expect(taken.filter((job) => job.startsWith('mail/'))).toHaveLength(4);
    expect(taken.filter((job) => job === 'default/b')).toHaveLength(3);
    expect(taken).toHaveLength(7);
  });

  test('leaves a paused queue alone', async () => {
    const worker = await startWorker(a);
    await insertJobs(t.observer, 1);
    await t.observer.query(`update pgqueue.queues set paused_at = now() where name = 'default'`);
    try {
      expect((await exchange(a, { worker, want: 1 })).jobs).toEqual([]);
    } finally {
      await t.observer.query('update pgqueue.queues set paused_at = null');
    }
    expect((await exchange(a, { worker, want: 1 })).jobs).toHaveLength(1);
  });

  test('takes a scheduled job when it is due, and tells when the next one will be', async () => {
    const worker = await startWorker(a);
    const id = await t.observer.value<string>(
      `insert into pgqueue.jobs (kind, run_at) values ('k', now() + interval '1 h') returning id`,
    );
    await t.observer.query(
      `insert into pgqueue.jobs (kind, run_at) values ('k', now() + interval '2 h'), ('k', 'infinity')`,
    );
    const before = await exchange(a, { worker, want: 5 });
    expect(before.jobs).toEqual([]);
    expect(before.dueIn).toBeGreaterThan(3_590_000);
    expect(before.dueIn).toBeLessThanOrEqual(3_600_000);

    // The trigger sees a change of run_at too; a job that is due now stays for the claim to promote.
    await t.observer.query('update pgqueue.jobs set run_at = now() where id = $1', [id]);
    const after = await exchange(a, { worker, want: 5 });
    expect(after.jobs.map((job) => job.id)).toEqual([id]);
    expect(after.dueIn).toBeGreaterThan(7_000_000);
  });

  test('B19: moves a job whose budget was lowered below its attempts to failed_jobs, and takes the others', async () => {
    const worker = await startWorker(a);
    const [spent = '', ...healthy] = await insertJobs(t.observer, 10);
    await t.observer.query('update pgqueue.jobs set attempts = 2 where id = $1', [spent]);
    await t.observer.query('update pgqueue.jobs set max_attempts = 1 where id = $1', [spent]);

    const answer = await exchange(a, { worker, want: 10 });

    expect(answer.jobs.map(({ id }) => id)).toEqual(healthy);
    expect(answer.spent).toEqual([spent]);
    expect(await statusOf(a, spent)).toBe('failed');
    const [row] = await a.rows<{ last_error: string; attempts: number; locked_by: string | null }>(
      'select last_error, attempts, locked_by from pgqueue.failed_jobs',
    );
    expect(row).toEqual({
      last_error: expect.stringContaining('no attempts left'),
      attempts: 2,
      locked_by: null,
    });
  });

  test('Invariant 4: never raises attempts above the budget, whatever numbers were set by hand', async () => {
    const worker = await startWorker(a);
    await t.observer.query(`
      insert into pgqueue.jobs (kind, attempts, max_attempts)
        select 'k', a, m from unnest(array[0, 1, 2147483647]) a, unnest(array[-1, 0, 1, 2, 2147483647]) m`);
    const { jobs, spent } = await exchange(a, { worker, want: 100 });
    expect(jobs).toHaveLength(5);
    expect(spent).toHaveLength(10);
    for (const { attempt, maxAttempts } of jobs) expect(attempt).toBeLessThanOrEqual(maxAttempts);
  });

  test('passes over a row that somebody has locked, without waiting', async () => {
    const worker = await startWorker(a);
    const [locked, free] = await insertJobs(t.observer, 2);
    await b.begin();
    await b.query('select from pgqueue.jobs where id = $1 for update', [locked]);
    const { jobs } = await exchange(a, { worker, want: 2 });
    await b.rollback();
    expect(jobs.map(({ id }) => id)).toEqual([free]);
  });

  test('can take a job that the same exchange hands back', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(t.observer, 1);
    await exchange(a, { worker, want: 1 });
    const settlements = [{ id, leaseNo: 1, action: 'release' as const }];
    const { jobs, answers } = await exchange(a, { worker, settlements, want: 1 });
    expect(answers).toEqual({});
    expect(jobs).toMatchObject([{ id, attempt: 1, leaseNo: 2 }]);
  });
});
