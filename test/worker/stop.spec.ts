import { eventually } from '../support/eventually.js';
import { Proxy } from '../support/proxy.js';
import { signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

const GRACE = 200;
/** Until handlers have heard of it and the farewell is over, and what a busy machine takes. */
const AFTER_GRACE = 1_000 + 500;

let store: TestStore;
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers');
});
afterAll(() => store.close());

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** What would keep this process alive: how many of each. */
function resources(): Record<string, number> {
  const counts: Record<string, number> = { Timeout: 0, Immediate: 0, TCPSocketWrap: 0 };
  for (const kind of process.getActiveResourcesInfo()) {
    if (kind in counts) counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

const hangs = () => new Promise<void>(() => {});

test.each([true, false])(
  'a stopped worker leaves no timer, no connection and no row (listener: %s)',
  async (listen) => {
    const before = resources();
    const worker = new TestWorker(store, [handler('k', async () => {}, { timeout: 60_000 })], {
      listen,
    });
    await worker.start();
    const ids = await insertJobs(store.observer, 20);
    await untilJobs(store.observer, ids, { status: 'done' });
    await worker.stop();
    await eventually(() => expect(resources()).toEqual(before), { timeout: 2_000 });
    expect(await store.observer.rows('select id from pgqueue.workers')).toEqual([]);
    expect(worker.log.lines).toEqual([]);
  },
);

test('a stop at any moment of the start ends it, and leaves nothing', async () => {
  const before = resources();
  for (const turns of [0, 1, 2, 5, 10, 20, 50]) {
    const worker = new TestWorker(store, [handler('k', async () => {})], { listen: true });
    const started = worker.start();
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
    await worker.stop();
    await started;
  }
  await eventually(() => expect(resources()).toEqual(before), { timeout: 2_000 });
  expect(await store.observer.rows('select id from pgqueue.workers')).toEqual([]);
});

test('stopping twice, or before the start, is one stop', async () => {
  const worker = new TestWorker(store, [handler('k', async () => {})]);
  expect(worker.worker.stop()).toBe(worker.worker.stop());
  await worker.stop();
  await worker.start();
  expect(await store.observer.rows('select id from pgqueue.workers')).toEqual([]);
});

test('B44: a job that does not end is aborted after the grace time and handed back with its attempt', async () => {
  const aborted: unknown[] = [];
  const worker = new TestWorker(
    store,
    [
      handler('k', async ({ signal: stop }) => {
        stop.addEventListener('abort', () => aborted.push((stop.reason as { code: string }).code));
        await hangs();
      }),
    ],
    { shutdownGrace: GRACE },
  );
  await worker.start();
  const ids = await insertJobs(store.observer, 3);
  await untilJobs(store.observer, ids, { status: 'running' });
  const took = await timed(() => worker.worker.stop());
  expect(took).toBeGreaterThanOrEqual(GRACE);
  expect(took).toBeLessThan(GRACE + AFTER_GRACE);
  expect(aborted).toEqual(['SHUTTING_DOWN', 'SHUTTING_DOWN', 'SHUTTING_DOWN']);
  await untilJobs(store.observer, ids, { status: 'queued', attempts: 0 });
  await worker.stop();
});

test('a job that ends within the grace time is done, and what waits for its turn is handed back', async () => {
  const open = signal();
  const worker = new TestWorker(
    store,
    [handler('k', () => open.happened, { queue: 'elsewhere', concurrency: 1 })],
    { queues: new Map([['default', 10]]), shutdownGrace: 10_000 },
  );
  await worker.start();
  const [first, ...others] = (await insertJobs(store.observer, 3)) as [string, ...string[]];
  await untilJobs(store.observer, [first], { status: 'running' });
  const stopped = worker.worker.stop();
  open.fire();
  await stopped;
  await untilJobs(store.observer, [first], { status: 'done', attempts: 1 });
  await untilJobs(store.observer, others, { status: 'queued', attempts: 0 });
  await worker.stop();
});

describe('without a database', () => {
  let proxy: Proxy;
  let worker: TestWorker;
  beforeEach(async () => {
    proxy = await Proxy.start(store.url);
    const where = { url: proxy.url, schema: store.schema };
    worker = new TestWorker(where, [handler('k', hangs)], { shutdownGrace: GRACE, listen: true });
  });
  afterEach(async () => {
    proxy.restore();
    await proxy.close();
    await worker.stop();
  });

  test('B27: a stop ends within the grace time and a second while the server is silent', async () => {
    await worker.start();
    const ids = await insertJobs(store.observer, 2);
    await untilJobs(store.observer, ids, { status: 'running' });
    proxy.stallAll();
    expect(await timed(() => worker.worker.stop())).toBeLessThan(GRACE + AFTER_GRACE);
  });

  test('a stop ends within the grace time and a second while every connection is refused', async () => {
    await worker.start();
    const ids = await insertJobs(store.observer, 2);
    await untilJobs(store.observer, ids, { status: 'running' });
    proxy.cut();
    expect(await timed(() => worker.worker.stop())).toBeLessThan(GRACE + AFTER_GRACE);
  });

  test.each(['cut', 'stallAll'] as const)(
    'a stop ends within a second when the worker never reached its database (%s)',
    async (fault) => {
      proxy[fault]();
      const started = worker.start();
      await eventually(() => expect(proxy.refused > 0 || fault === 'stallAll').toBe(true));
      expect(await timed(() => worker.worker.stop())).toBeLessThan(AFTER_GRACE);
      await proxy.close();
      await started;
    },
  );
});
