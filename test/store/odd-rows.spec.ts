import { rescue } from '../../lib/store/statements/workers.js';
import {
  done,
  endLease,
  exchange,
  insertJobs,
  openStore,
  startWorker,
  statusOf,
  type TestStore,
} from '../support/store.js';

// One odd row never stops the others.

let t: TestStore;
beforeAll(async () => {
  t = await openStore();
});
afterAll(() => t.close());
beforeEach(() => t.observer.query('truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs'));

test('a job whose id stands among the dead letters too is failed like any other, and stops no claim', async () => {
  const worker = await startWorker(t.observer);
  const [odd, healthy] = (await insertJobs(t.observer, 2)) as [string, string];
  await t.observer.query(
    `insert into pgqueue.failed_jobs (id, queue, kind, payload, priority, run_at, attempts, max_attempts,
                                      lease_no, last_error, created_at, failed_at)
     values ($1, 'default', 'k', '{}', 0, now(), 1, 1, 1, 'of long ago', now(), now())`,
    [odd],
  );
  await t.observer.query('update pgqueue.jobs set attempts = 1, max_attempts = 1 where id = $1', [
    odd,
  ]);
  const { jobs, spent } = await exchange(t.observer, { worker, want: 10 });
  expect(jobs.map(({ id }) => id)).toEqual([healthy]);
  expect(spent).toEqual([odd]);
  const errors = await t.observer.rows('select last_error from pgqueue.all_jobs where id = $1', [
    odd,
  ]);
  expect(errors).toEqual([{ last_error: 'The job had no attempts left when it was due' }]);
});

test('a row that the database refuses to free stays, says so, and holds up no other', async () => {
  const worker = await startWorker(t.observer);
  const [odd, healthy] = (await insertJobs(t.observer, 2)) as [string, string];
  await exchange(t.observer, { worker, want: 2 });
  await t.observer.query(
    `alter table pgqueue.jobs add constraint odd check (id <> ${odd} or locked_by is not null) not valid`,
  );
  await endLease(t.observer, worker);
  expect(await t.store.declareDead(worker)).toBe('w');
  const rescued = await t.observer.run(rescue, { strays: false, limit: 10 });
  await t.observer.query('alter table pgqueue.jobs drop constraint odd');
  expect(rescued.find(({ id }) => id === odd)?.outcome).toMatch(/^refused: .*odd/);
  expect(rescued.find(({ id }) => id === healthy)?.outcome).toBe('freed');
  expect(await statusOf(t.observer, odd)).toBe('running');
});

test('two claims of one job that end in one batch leave one row of history, with the result of the one that holds', async () => {
  const worker = await startWorker(t.observer);
  const [id] = (await insertJobs(t.observer, 1)) as [string];
  await exchange(t.observer, { worker, want: 1 });
  await t.observer.query('update pgqueue.jobs set locked_by = null where id = $1', [id]);
  await exchange(t.observer, { worker, want: 1 });
  const settlements = [
    done({ id, leaseNo: 1 }, { result: '"stale"' }),
    done({ id, leaseNo: 2 }, { result: '"valid"' }),
  ];
  await exchange(t.observer, { worker, settlements });
  const rows = await t.observer.rows('select lease_no, result from pgqueue.done_jobs');
  expect(rows).toEqual([{ lease_no: 2, result: 'valid' }]);
});

test('lanes that share slots get no more than those between them', async () => {
  const worker = await startWorker(t.observer, { kinds: ['k', 'l'] });
  await t.observer.query(
    `insert into pgqueue.jobs (kind) select k from unnest('{k,l}'::text[]) as k, generate_series(1, 5)`,
  );
  const shared = { queue: 'default', slots: 'default', free: 4 };
  const lanes = [
    { ...shared, only: ['l'], want: 1 },
    { ...shared, only: ['k'], want: 4 },
  ];
  const { jobs } = await exchange(t.observer, { worker, lanes });
  expect(jobs.map(({ kind }) => kind).toSorted()).toEqual(['k', 'k', 'k', 'l']);
});
