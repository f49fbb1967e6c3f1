import { reconcile, declareDead, heartbeat, rescue } from '../../lib/store/statements/workers.js';
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

let t: TestStore;
let a: Session;
let b: Session;

beforeAll(async () => {
  t = await openStore();
  [a, b] = await Promise.all([t.connect(), t.connect()]);
});
afterAll(() => t.close());
beforeEach(() => t.observer.query('truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs'));

const HOUR = 3_600_000;
const oneOf = <Row>([row]: readonly Row[]): Row | undefined => row;

describe('a heartbeat against the declaration of death', () => {
  test('Invariant 2: a heartbeat that commits while the declaration waits keeps the worker alive', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(a, 1);
    await exchange(a, { worker, want: 1 });
    await endLease(t.observer, worker);

    await a.begin();
    expect(oneOf(await a.run(heartbeat, { worker, lease: HOUR }))?.alive).toBe(true);
    const declared = b.run(declareDead, worker);
    await untilWaiting(t.observer, b);
    await a.commit();

    expect(await declared).toEqual([null]);
    expect(await b.run(rescue, { strays: true, limit: 10 })).toEqual([]);
    expect((await jobRow(a, id)).locked_by).toBe(worker);
  });

  test('a heartbeat that rolls back while the declaration waits does not', async () => {
    const worker = await startWorker(a);
    await endLease(t.observer, worker);
    await a.begin();
    await a.run(heartbeat, { worker, lease: HOUR });
    const declared = b.run(declareDead, worker);
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await declared).toEqual(['w']);
  });

  test('a heartbeat that waits for the declaration learns that the worker is dead', async () => {
    const worker = await startWorker(a);
    await endLease(t.observer, worker);
    await b.begin();
    expect(await b.run(declareDead, worker)).toEqual(['w']);
    const late = a.run(heartbeat, { worker, lease: HOUR });
    await untilWaiting(t.observer, a);
    await b.commit();
    expect(oneOf(await late)?.alive).toBe(false);
  });

  test('a worker whose lease goes on is not declared dead, and death is declared once', async () => {
    const worker = await startWorker(a);
    expect(await b.run(declareDead, worker)).toEqual([null]);
    await endLease(t.observer, worker);
    expect(await b.run(declareDead, worker)).toEqual(['w']);
    expect(await b.run(declareDead, worker)).toEqual([null]);
  });

  test('a heartbeat names the workers that are overdue or dead, and not itself', async () => {
    const [worker, overdue] = [await startWorker(a), await startWorker(a)];
    const [dead, fine] = [await startWorker(a), await startWorker(a)];
    for (const id of [worker, overdue, dead]) await endLease(t.observer, id);
    await b.run(declareDead, dead);
    const answer = oneOf(await a.run(heartbeat, { worker, lease: HOUR }));
    expect(answer?.overdue).toEqual(expect.arrayContaining([overdue, dead]));
    expect(answer?.overdue).not.toContain(worker);
    expect(answer?.overdue).not.toContain(fine);
  });
});

describe('an exchange against the declaration of death', () => {
  test('the declaration waits for an exchange in flight, whose claims the rescue then frees', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(a, 1);
    await endLease(t.observer, worker);

    await a.begin();
    expect((await exchange(a, { worker, want: 1 })).jobs).toHaveLength(1);
    const declared = b.run(declareDead, worker);
    await untilWaiting(t.observer, b);
    await a.commit();

    expect(await declared).toEqual(['w']);
    const rescued = await b.run(rescue, { strays: false, limit: 10 });
    expect(rescued).toMatchObject([{ id, outcome: 'freed' }]);
    expect(await jobRow(a, id)).toMatchObject({ status: 'queued', attempts: 1, locked_by: null });
  });

  test('an exchange that waited for the declaration claims nothing and hears that it is dead', async () => {
    const worker = await startWorker(a);
    await insertJobs(a, 1);
    await endLease(t.observer, worker);

    await b.begin();
    await b.run(declareDead, worker);
    const late = exchange(a, { worker, want: 1 });
    await untilWaiting(t.observer, a);
    await b.commit();

    expect(await late).toMatchObject({ worker: 'dead', jobs: [] });
  });

  test('a dead worker settles what nobody has taken from it, and nothing after a rescue', async () => {
    const worker = await startWorker(a);
    const [first = '', second = ''] = await insertJobs(a, 2);
    const { jobs } = await exchange(a, { worker, want: 2 });
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);

    const settlements = [done({ id: first, leaseNo: 1 }, { result: '{"ok": true}' })];
    const late = await exchange(a, { worker, settlements, want: 5 });
    expect(late).toMatchObject({ worker: 'dead', answers: {}, jobs: [] });
    expect(await statusOf(a, first)).toBe('done');

    const rescued = await b.run(rescue, { strays: false, limit: 10 });
    expect(rescued).toMatchObject([{ id: second, outcome: 'freed' }]);
    const tooLate = await exchange(a, { worker, settlements: jobs.map((job) => done(job)) });
    expect(tooLate).toMatchObject({
      worker: 'dead',
      answers: { [first]: 'already', [second]: 'lost' },
    });
    expect(await statusOf(a, second)).toBe('queued');
  });

  test('Invariant 4: a job whose last attempt died with its worker is failed, and says so', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(a, 1);
    await a.query('update pgqueue.jobs set max_attempts = 1');
    await exchange(a, { worker, want: 1 });
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);
    const rescued = await b.run(rescue, { strays: false, limit: 10 });
    expect(rescued).toMatchObject([{ id, worker: 'w', outcome: 'failed' }]);
    const [row] = await a.rows<{ last_error: string; attempts: number }>(
      'select last_error, attempts from pgqueue.failed_jobs',
    );
    expect(row).toEqual({ last_error: expect.stringContaining('lease expired'), attempts: 1 });
    // No scan can find a job of it any more: its row has gone.
    expect(await a.rows('select from pgqueue.workers where id = $1', [worker])).toEqual([]);
  });

  test('a job of a worker that has no row is a stray, which only a rescue of strays frees', async () => {
    const worker = await startWorker(a);
    const [id] = await insertJobs(a, 1);
    await exchange(a, { worker, want: 1 });
    await a.query('delete from pgqueue.workers where id = $1', [worker]);
    expect(await b.run(rescue, { strays: false, limit: 10 })).toEqual([]);
    expect(await b.run(rescue, { strays: true, limit: 10 })).toMatchObject([{ id, worker }]);
  });
});

describe('a worker that reconnects', () => {
  test('waits for the exchange of its broken connection, and hands back what that one claimed', async () => {
    const worker = await startWorker(a);
    const [known = '', unknown = ''] = await insertJobs(a, 2);
    await exchange(a, { worker, want: 1 });

    await a.begin();
    await exchange(a, { worker, want: 1 });
    const reconciled = b.run(reconcile, { worker, known: [known] });
    await untilWaiting(t.observer, b);
    await a.commit();

    expect(await reconciled).toEqual([{ epoch: 1, released: 1, remaining: 0 }]);
    expect(await jobRow(b, unknown)).toMatchObject({ attempts: 0, lease_no: 1, locked_by: null });
    expect(await jobRow(b, known)).toMatchObject({ attempts: 1, locked_by: worker });

    const old = await exchange(a, { worker, epoch: 0, want: 5 });
    expect(old).toMatchObject({ worker: 'stale', jobs: [] });
    const current = await exchange(b, { worker, epoch: 1, want: 5 });
    expect(current.jobs).toMatchObject([{ id: unknown, attempt: 1, leaseNo: 2 }]);
  });

  test('shuts out an exchange of the old connection that arrives later, whose settlement still stands', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(a, 2);
    await exchange(a, { worker, want: 1 });

    await b.begin();
    await b.run(reconcile, { worker, known: [id] });
    const settlements = [done({ id, leaseNo: 1 })];
    const old = exchange(a, { worker, epoch: 0, settlements, want: 1 });
    await untilWaiting(t.observer, a);
    await b.commit();

    expect(await old).toMatchObject({ worker: 'stale', answers: {}, jobs: [] });
    expect(await statusOf(a, id)).toBe('done');
  });

  test('counts a row that somebody has locked, and hands it back the next time', async () => {
    const worker = await startWorker(a);
    const [id = ''] = await insertJobs(a, 1);
    await exchange(a, { worker, want: 1 });
    await a.begin();
    await a.query('select from pgqueue.jobs where id = $1 for update', [id]);
    const first = await b.run(reconcile, { worker, known: [] });
    await a.rollback();
    expect(first).toEqual([{ epoch: 1, released: 0, remaining: 1 }]);
    const second = await b.run(reconcile, { worker, known: [] });
    expect(second).toEqual([{ epoch: 2, released: 1, remaining: 0 }]);
  });

  test('is told when it was declared dead meanwhile', async () => {
    const worker = await startWorker(a);
    await endLease(t.observer, worker);
    await b.run(declareDead, worker);
    const [answer] = await a.run(reconcile, { worker, known: [] });
    expect(answer?.epoch).toBeUndefined();
  });
});
