import { JobWaits } from '../../lib/queue/job-waits.js';
import { getJobs, stillPending } from '../../lib/store/statements/job-records.js';
import { explainEverything, nodesOf, plansOf, rowsTouched } from '../support/plans.js';
import { signal, type Signal } from '../support/signal.js';
import { done, draft, exchange, openStore, startWorker, type TestStore } from '../support/store.js';

let db: TestStore;
beforeAll(async () => {
  db = await openStore();
});
afterAll(() => db.close());

/** Waits whose looks stop between their two statements until the test lets them go on. */
function stoppedWaits(): { waits: JobWaits; stopped: Signal; goOn: Signal } {
  const stopped = signal();
  const goOn = signal();
  const { store } = db;
  const waits = new JobWaits({
    stillPending: async (ids, limit) => {
      const pending = await store.stillPending(ids, limit);
      stopped.fire();
      await goOn.happened;
      return pending;
    },
    getJobs: (ids, limit) => store.getJobs(ids, limit),
    onEnded: () => () => {},
  });
  return { waits, stopped, goOn };
}

function span() {
  const since = performance.now();
  return { since, deadline: since + 30_000 };
}

/** A job of kind `k` that a worker holds. */
async function claimedJob() {
  const { observer, store } = db;
  const worker = await startWorker(observer);
  const [row] = await store.enqueueMany([draft()]);
  const { jobs } = await exchange(observer, { worker, want: 1 });
  const [job] = jobs;
  if (job === undefined || job.id !== row?.id) throw new Error('The job was not claimed');
  return { worker, job };
}

test('a job that ends between look and answer is found by the next look', async () => {
  const { worker, job } = await claimedJob();
  const { waits, stopped, goOn } = stoppedWaits();
  const waiting = waits.wait(job.id, span(), false);
  await stopped.happened; // it was read as pending
  await exchange(db.observer, { worker, settlements: [done(job, { result: '"stored"' })] });
  goOn.fire();
  expect(await waiting).toBe('stored');
});

test('a job that is retried by hand between the two statements of a look is waited for', async () => {
  const { observer } = db;
  const { worker, job } = await claimedJob();
  const error = { name: 'Error', message: 'no' };
  const failed = { id: job.id, leaseNo: job.leaseNo, action: 'fail', error } as const;
  await exchange(observer, { worker, settlements: [failed] });
  const { waits, stopped, goOn } = stoppedWaits();
  const waiting = waits.wait(job.id, span(), false);
  await stopped.happened; // it was read as not pending
  expect(await observer.value('select pgqueue.retry($1)', [job.id])).toBe('retried');
  goOn.fire();
  const { jobs } = await exchange(observer, { worker, want: 1 });
  await exchange(observer, { worker, settlements: jobs.map((again) => done(again)) });
  expect(await waiting).toBeUndefined();
});

test('a job that has left no row has ended, if it was there before', async () => {
  const { observer } = db;
  const { worker, job } = await claimedJob();
  const { waits, stopped, goOn } = stoppedWaits();
  const waiting = waits.wait(job.id, span(), false);
  await stopped.happened;
  await exchange(observer, { worker, settlements: [done(job, { keep: false })] });
  goOn.fire();
  await expect(waiting).rejects.toMatchObject({ code: 'RESULT_NOT_KEPT', jobId: job.id });
  await expect(waits.wait(job.id, span(), false)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
});

test('a look reads the rows that it asks for and no others, however many there are', async () => {
  const session = await db.connect();
  await session.query('alter table pgqueue.jobs disable trigger user');
  const many = `select 'k' from generate_series(1, 30000)`;
  await session.query(`insert into pgqueue.jobs (kind) ${many}`);
  await session.query(
    `with gone as (delete from pgqueue.jobs where id % 3 = 0 returning *)
     insert into pgqueue.done_jobs (id, queue, kind, payload, status, priority, run_at, attempts,
                                    max_attempts, lease_no, created_at, finished_at)
     select id, queue, kind, payload, 'done', priority, run_at, 1, 5, 1, created_at, now() from gone`,
  );
  const ids = await session.rows<{ id: string }>(
    'select id from pgqueue.all_jobs where id > 1000 order by id limit 100',
  );
  const asked = ids.map(({ id }) => id);
  await explainEverything(session);
  for (const statistics of ['stale', 'fresh']) {
    if (statistics === 'fresh') await session.query('analyze pgqueue.jobs, pgqueue.done_jobs');
    for (const statement of [stillPending, getJobs]) {
      const plans = await plansOf(session, () =>
        session.run<typeof asked, unknown>(statement, asked),
      );
      const touched = plans
        .flatMap(({ root }) => nodesOf(root))
        .filter((node) => node['Relation Name'] !== undefined)
        .reduce((sum, node) => sum + rowsTouched(node), 0);
      expect(plans.length).toBeGreaterThan(0);
      // A pending one twice: for its record, and for what only pending ones have.
      expect(touched).toBeLessThanOrEqual(2 * asked.length);
    }
  }
});
