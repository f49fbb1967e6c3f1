import type { PgQueueError } from '../../lib/contracts/errors.js';
import { eventually } from '../support/eventually.js';
import { Proxy } from '../support/proxy.js';
import { signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

let store: TestStore;
let proxy: Proxy;
const workers: TestWorker[] = [];
beforeAll(async () => {
  store = await openStore();
});
beforeEach(async () => {
  proxy = await Proxy.start(store.url);
});
afterEach(async () => {
  proxy.restore();
  for (const worker of workers.splice(0)) await worker.stop();
  await proxy.close();
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers');
});
afterAll(() => store.close());

const LEASE = { lease: 1_500, heartbeat: 400 };

type Arguments = ConstructorParameters<typeof TestWorker>;

async function start(url: string, handlers: Arguments[1]): Promise<TestWorker> {
  const worker = new TestWorker({ url, schema: store.schema }, handlers, LEASE);
  workers.push(worker);
  await worker.start();
  return worker;
}

function workerIds(): Promise<{ id: string }[]> {
  return store.observer.rows('select id from pgqueue.workers where dead_at is null');
}

test('a worker that can not renew its lease aborts its jobs before the lease ends, and goes on under a new id', async () => {
  const reasons: PgQueueError[] = [];
  const aborted = signal<number>();
  let runs = 0;
  const { log } = await start(proxy.url, [
    handler('k', async ({ signal: stop }) => {
      runs += 1;
      if (runs > 1) return;
      await new Promise((resolve) => stop.addEventListener('abort', resolve));
      reasons.push(stop.reason as PgQueueError);
      aborted.fire(performance.now());
      throw new Error('aborted');
    }),
  ]);
  const [before] = await workerIds();
  const ids = await insertJobs(store.observer, 1);
  await untilJobs(store.observer, ids, { status: 'running' });
  const cutAt = performance.now();
  proxy.cut();
  expect((await aborted.happened) - cutAt).toBeLessThan(LEASE.lease);
  expect(reasons.map(({ code }) => code)).toEqual(['LEASE_LOST']);
  await untilJobs(store.observer, ids, { status: 'running', attempts: 1 });
  proxy.restore();

  // It stopped because it was told to: the attempt is given back.
  await untilJobs(store.observer, ids, { status: 'done', attempts: 1 });
  expect(runs).toBe(2);
  await eventually(async () => {
    const [after, ...others] = await workerIds();
    expect(others).toEqual([]);
    expect(after?.id).not.toBe(before?.id);
  });
  expect(log.matching(/lost its lease/)).toHaveLength(1);
});

test('what a job returned after its lease was lost is stored, as nobody has taken the job', async () => {
  let runs = 0;
  const open = signal();
  const { log } = await start(proxy.url, [
    handler('k', async () => {
      runs += 1;
      await open.happened;
      return 'of the old life';
    }),
  ]);
  const [before] = await workerIds();
  const ids = await insertJobs(store.observer, 3);
  await eventually(() => expect(runs).toBe(3));
  proxy.cut();
  await eventually(() => expect(log.matching(/lost its lease/)).toHaveLength(1));
  open.fire();
  // Long enough that the old life is overdue, so that the new one could declare it dead.
  await eventually(async () => {
    const overdue = await store.observer.value(
      `select lease_until < now() - interval '1 s' from pgqueue.workers where id = $1`,
      [before?.id],
    );
    expect(overdue).toBe(true);
  });
  proxy.restore();

  await untilJobs(store.observer, ids, { status: 'done', attempts: 1, locked_by: before?.id });
  expect(runs).toBe(3);
  expect(log.matching(/not this worker's any more/)).toEqual([]);
});

test('what a job returned after someone else took it is not stored, and the log says so', async () => {
  const open = signal();
  const held = signal();
  const first = await start(proxy.url, [
    handler('k', async () => {
      held.fire();
      await open.happened;
      return 'of the one that was cut off';
    }),
  ]);
  const [id] = (await insertJobs(store.observer, 1)) as [string];
  await held.happened;
  const taken = signal();
  const end = signal();
  await start(store.url, [
    handler('k', async () => {
      taken.fire();
      await end.happened;
      return 'of the other';
    }),
  ]);
  proxy.cut();
  await taken.happened;
  open.fire();
  proxy.restore();
  await eventually(() =>
    expect(first.log.matching(new RegExp(`Job ${id} is not this worker's any more`))).toHaveLength(
      1,
    ),
  );
  end.fire();
  await untilJobs(store.observer, [id], { status: 'done', attempts: 2 });
  expect(await store.observer.rows('select result from pgqueue.done_jobs')).toEqual([
    { result: 'of the other' },
  ]);
});

test('a worker that was declared dead stops its jobs and starts again', async () => {
  let code: string | undefined;
  const { log } = await start(store.url, [
    handler('k', async ({ signal: stop, attempt }) => {
      if (attempt > 1) return;
      await new Promise((resolve) => stop.addEventListener('abort', resolve));
      code = (stop.reason as PgQueueError).code;
    }),
  ]);
  const ids = await insertJobs(store.observer, 1);
  await untilJobs(store.observer, ids, { status: 'running' });
  const dead = await store.observer.value<string>(
    'update pgqueue.workers set dead_at = now() returning id',
  );
  await untilJobs(store.observer, ids, { status: 'done' });
  expect(code).toBe('LEASE_LOST');
  expect(log.matching(/lost its lease/)).toHaveLength(1);
  await eventually(async () => {
    const rows = await store.observer.rows<{ id: string }>('select id from pgqueue.workers');
    expect(rows).toHaveLength(1);
    expect(rows[0]?.id).not.toBe(dead);
  });
});

test('outages shorter and longer than the lease, one after the other, leave a worker that works', async () => {
  const { log } = await start(proxy.url, [handler('k', async () => {})]);
  for (const lives of [0, 1, 1, 2]) {
    proxy.refused = 0;
    proxy.cut();
    await eventually(() => {
      expect(proxy.refused).toBeGreaterThan(2);
      expect(log.matching(/lost its lease/).length).toBeGreaterThanOrEqual(lives);
    });
    proxy.restore();
    const ids = await insertJobs(store.observer, 5);
    await untilJobs(store.observer, ids, { status: 'done', attempts: 1 });
  }
  await eventually(async () => expect(await workerIds()).toHaveLength(1));
});
