import { cancel } from '../../lib/store/statements/jobs.js';
import type { ClaimedJob, Settlement } from '../../lib/store/statements/exchange.js';
import { declareDead, reconcile, rescue } from '../../lib/store/statements/workers.js';
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

// The row of the job decides between a cancel and whatever else is about to happen to it: the first transition
// that commits wins. Each order is forced here, statement by statement.

let t: TestStore;
let a: Session;
let b: Session;

beforeAll(async () => {
  t = await openStore();
  [a, b] = await Promise.all([t.connect(), t.connect()]);
});
afterAll(() => t.close());
// A test that fails must not leave its transactions in the way of the others.
afterEach(() => Promise.all([a.rollback(), b.rollback()]));
beforeEach(() => t.observer.query('truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs'));

const error = { name: 'Error', message: 'no luck' };

async function claimed(): Promise<{ worker: string; job: ClaimedJob; id: string }> {
  const worker = await startWorker(a);
  await insertJobs(a, 1);
  const [job] = (await exchange(a, { worker, want: 1 })).jobs;
  if (job === undefined) throw new Error('Nothing was claimed');
  return { worker, job, id: job.id };
}

const ENDS: Record<string, (job: ClaimedJob) => Settlement> = {
  done: (job) => done(job, { result: '[1]' }),
  'done and not kept': (job) => done(job, { keep: false }),
  'retry at once': ({ id, leaseNo }) => ({ id, leaseNo, action: 'retry', error }),
  'retry later': ({ id, leaseNo }) => ({ id, leaseNo, action: 'retry', delayMs: 60_000, error }),
  release: ({ id, leaseNo }) => ({ id, leaseNo, action: 'release' }),
  fail: ({ id, leaseNo }) => ({ id, leaseNo, action: 'fail', error }),
  cancel: ({ id, leaseNo }) => ({ id, leaseNo, action: 'cancel', error }),
};

describe('a cancel against a claim', () => {
  test('that waits for a claim in flight asks for the end of the job, which runs by then', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(t.observer, 1);
    await a.begin();
    await exchange(a, { worker, want: 1 });
    const answer = b.run(cancel, id);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await answer).toEqual(['requested']);
    expect((await t.store.getJob(id))?.cancelRequestedAt).toBeInstanceOf(Date);
  });

  test('that waits for a claim which is rolled back ends the job', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(t.observer, 1);
    await a.begin();
    await exchange(a, { worker, want: 1 });
    const answer = b.run(cancel, id);
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await answer).toEqual(['cancelled']);
    expect((await exchange(a, { worker, want: 1 })).jobs).toEqual([]);
  });

  test('that comes first leaves nothing to claim, and its rollback leaves the job', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(t.observer, 1);
    await b.begin();
    expect(await b.run(cancel, id)).toEqual(['cancelled']);
    expect((await exchange(a, { worker, want: 1 })).jobs).toEqual([]);
    await b.rollback();
    expect((await exchange(a, { worker, want: 1 })).jobs).toMatchObject([{ id }]);
  });

  test('whose request stands in a row that waits ends the job when a claim meets it', async () => {
    const worker = await startWorker(a);
    const [id = '', next] = await insertJobs(t.observer, 2);
    await t.observer.query('update pgqueue.jobs set cancel_requested_at = now() where id = $1', [
      id,
    ]);
    const { jobs, answers } = await exchange(a, { worker, want: 2 });
    expect(jobs.map((job) => job.id)).toEqual([next]);
    expect(answers).toEqual({ [id]: 'expired' });
    expect(await statusOf(a, id)).toBe('cancelled');
  });
});

describe('a cancel against a settlement', () => {
  test.each(Object.keys(ENDS))('%s: that comes first is what counts', async (name) => {
    const { worker, job, id } = await claimed();
    const settlement = ENDS[name]?.(job) as Settlement;
    await a.begin();
    await exchange(a, { worker, settlements: [settlement] });
    const answer = b.run(cancel, id);
    await untilWaiting(t.observer, b);
    await a.commit();
    const pending = settlement.action === 'retry' || settlement.action === 'release';
    const gone = name === 'done and not kept' ? 'not_found' : 'finished';
    expect(await answer).toEqual([pending ? 'cancelled' : gone]);
  });

  test.each(Object.keys(ENDS))('%s: that comes second ends as cancelled', async (name) => {
    const { worker, job, id } = await claimed();
    const settlement = ENDS[name]?.(job) as Settlement;
    await b.begin();
    expect(await b.run(cancel, id)).toEqual(['requested']);
    // It does not wait; while the cancel may still roll back, it can only be asked to come again.
    const meanwhile = await exchange(a, { worker, settlements: [settlement] });
    expect(meanwhile.answers).toEqual({ [id]: 'busy' });
    await b.commit();

    expect((await exchange(a, { worker, settlements: [settlement] })).answers).toEqual({});
    expect(await t.store.getJob(id)).toMatchObject({
      status: 'cancelled',
      lockedBy: worker,
      attempts: 1,
      result: name === 'done' ? [1] : null,
    });
    expect(await b.run(cancel, id)).toEqual(['finished']);
    // The answer got lost, and it is sent again.
    const again = await exchange(a, { worker, settlements: [settlement] });
    expect(again.answers).toEqual({ [id]: 'already' });
  });

  test('of others in the same batch concerns only its own job', async () => {
    const worker = await startWorker(a);
    const [first = '', second = '', third = '', fourth = ''] = await insertJobs(a, 4);
    const { jobs } = await exchange(a, { worker, want: 4 });
    for (const id of [second, fourth]) await b.run(cancel, id);
    const settlements = jobs.map((job, n) => done(job, { keep: n < 2 }));
    expect((await exchange(a, { worker, settlements })).answers).toEqual({});
    expect(await statusOf(a, first)).toBe('done');
    expect(await statusOf(a, second)).toBe('cancelled');
    expect(await statusOf(a, third)).toBeUndefined();
    expect(await statusOf(a, fourth)).toBe('cancelled');
  });

  test('that rolls back leaves the settlement as it is', async () => {
    const { worker, job, id } = await claimed();
    await b.begin();
    await b.run(cancel, id);
    await b.rollback();
    expect((await exchange(a, { worker, settlements: [done(job)] })).answers).toEqual({});
    expect(await statusOf(a, id)).toBe('done');
  });
});

describe('a cancel against the death of the worker', () => {
  test('a job whose worker dies after the request is cancelled by the rescue, and not run again', async () => {
    const { worker, job, id } = await claimed();
    await b.run(cancel, id);
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);
    const rescued = await b.run(rescue, { strays: false, limit: 10 });
    expect(rescued).toMatchObject([{ id, outcome: 'cancelled' }]);
    expect(await t.store.getJob(id)).toMatchObject({
      status: 'cancelled',
      lockedBy: null,
      lastError: expect.stringContaining('died'),
    });
    const late = await exchange(a, { worker, settlements: [done(job)] });
    expect(late.answers).toEqual({ [id]: 'lost' });
  });

  test('that waits for a rescue in flight ends the job, which is free by then', async () => {
    const { worker, id } = await claimed();
    await endLease(t.observer, worker);
    await a.run(declareDead, worker);
    await a.begin();
    expect(await a.run(rescue, { strays: false, limit: 10 })).toMatchObject([{ outcome: 'freed' }]);
    const answer = b.run(cancel, id);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await answer).toEqual(['cancelled']);
    expect(await statusOf(a, id)).toBe('cancelled');
  });

  test('in flight is passed over by a rescue, and found by the next one', async () => {
    const { worker, id } = await claimed();
    await endLease(t.observer, worker);
    await a.run(declareDead, worker);
    await b.begin();
    expect(await b.run(cancel, id)).toEqual(['requested']);
    expect(await a.run(rescue, { strays: false, limit: 10 })).toEqual([]);
    await b.commit();
    const rescued = await a.run(rescue, { strays: false, limit: 10 });
    expect(rescued).toMatchObject([{ id, outcome: 'cancelled' }]);
  });

  test('a claim whose answer was lost is not handed back but cancelled', async () => {
    const { worker, id } = await claimed();
    await b.run(cancel, id);
    const [answer] = await a.run(reconcile, { worker, known: [] });
    expect(answer).toMatchObject({ released: 1, remaining: 0 });
    expect(await statusOf(a, id)).toBe('cancelled');
  });
});

describe('a request', () => {
  test('is told on the channel of cancels when it commits, at every call', async () => {
    const { id } = await claimed();
    const heard: (string | undefined)[] = [];
    a.client.on('notification', ({ payload }) => heard.push(payload));
    const channel = await a.value<string>('select pgqueue.cancel_channel()');
    await a.query(`listen "${channel}"`);
    await b.begin();
    await b.run(cancel, id);
    await a.query('select 1');
    expect(heard).toEqual([]);
    await b.commit();
    await b.run(cancel, id);
    await a.query('select 1');
    expect(heard).toEqual([`${id}:1`, `${id}:1`]);
    a.client.removeAllListeners('notification');
    await a.query('unlisten *');
  });

  test('keeps the first instant, and gives the dedupe key free only when the job ends', async () => {
    const { worker, job, id } = await claimed();
    await t.observer.query(`update pgqueue.jobs set dedupe_key = 'key'`);
    await b.run(cancel, id);
    const first = (await t.store.getJob(id))?.cancelRequestedAt;
    await b.run(cancel, id);
    expect((await t.store.getJob(id))?.cancelRequestedAt).toEqual(first);
    expect(await jobRow(a, id)).toMatchObject({ status: 'running', locked_by: worker });
    await exchange(a, { worker, settlements: [done(job)] });
    expect(await a.rows(`select from pgqueue.jobs where dedupe_key = 'key'`)).toEqual([]);
  });

  test('is a HOT update: no index is written', async () => {
    const columns = await t.observer.rows(`
      select 1 from pg_index i
        join pg_attribute c on c.attrelid = i.indrelid and c.attname in ('cancel_requested_at', 'deadline')
       where i.indrelid = 'pgqueue.jobs'::regclass
         and (c.attnum = any (i.indkey)
              or exists (select from pg_depend d
                          where d.objid = i.indexrelid and d.refobjid = i.indrelid
                            and d.classid = 'pg_class'::regclass and d.refobjsubid = c.attnum))`);
    expect(columns).toEqual([]);
  });
});
