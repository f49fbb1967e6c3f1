import { eventually } from '../support/eventually.js';
import { Proxy } from '../support/proxy.js';
import { signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

let store: TestStore;
let proxy: Proxy;
let worker: TestWorker | undefined;
beforeAll(async () => {
  store = await openStore();
});
beforeEach(async () => {
  proxy = await Proxy.start(store.url);
});
afterEach(async () => {
  proxy.restore();
  await worker?.stop();
  worker = undefined;
  await proxy.close();
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers');
});
afterAll(() => store.close());

type Arguments = ConstructorParameters<typeof TestWorker>;

async function start(handlers: Arguments[1], settings?: Arguments[2]): Promise<TestWorker> {
  worker = new TestWorker({ url: proxy.url, schema: store.schema }, handlers, settings);
  await worker.start();
  return worker;
}

test('results are kept while the database is away, and sent when it is back: no job runs twice', async () => {
  const ids = await insertJobs(store.observer, 10);
  const open = signal();
  const runs: string[] = [];
  const { log } = await start([
    handler('k', async ({ id }) => {
      runs.push(id);
      await open.happened;
    }),
  ]);
  await eventually(() => expect(runs).toHaveLength(10));
  proxy.cut();
  open.fire();
  await eventually(() => expect(proxy.refused).toBeGreaterThan(5));
  await untilJobs(store.observer, ids, { status: 'running' });
  proxy.restore();

  await untilJobs(store.observer, ids, { status: 'done', attempts: 1 });
  expect(runs.sort()).toEqual([...ids].sort());
  // One line when it began and one when it was over, however many tries there were.
  expect(log.matching(/can't be asked for jobs/)).toHaveLength(1);
  await eventually(() => expect(log.matching(/answers again/)).toHaveLength(1));
  expect(log.lines).toHaveLength(2);
});

test('each outage is told of once', async () => {
  const { log } = await start([handler('k', async () => {})]);
  for (const outage of [1, 2]) {
    proxy.refused = 0;
    proxy.cut();
    await eventually(() => expect(proxy.refused).toBeGreaterThan(3));
    proxy.restore();
    await eventually(() => expect(log.matching(/answers again/)).toHaveLength(outage));
    expect(log.matching(/can't be asked for jobs/)).toHaveLength(outage);
  }
});

test('claims whose answer was lost are handed back with their attempts, and run once', async () => {
  const runs: string[] = [];
  const { log } = await start([handler('claimed', async ({ id }) => runs.push(id))]);
  const lost = proxy.loseAnswerWith('claimed');
  const rows = await store.observer.rows<{ id: string }>(
    `insert into pgqueue.jobs (kind) select 'claimed' from generate_series(1, 10) returning id`,
  );
  const ids = rows.map(({ id }) => id);
  await lost;
  await untilJobs(store.observer, ids, { status: 'done', attempts: 1 });
  expect(runs.sort()).toEqual([...ids].sort());
  expect(log.matching(/Handed back 10 jobs/)).toHaveLength(1);
  const leases = await store.observer.rows('select distinct lease_no from pgqueue.done_jobs');
  expect(leases).toEqual([{ lease_no: 2 }]);
});

test('B21: a settlement whose answer was lost is stored once, and its job does not run again', async () => {
  const open = signal();
  let runs = 0;
  const { log } = await start([
    handler('k', async () => {
      runs += 1;
      await open.happened;
    }),
  ]);
  const [id] = (await insertJobs(store.observer, 1)) as [string];
  await store.observer.query('update pgqueue.jobs set max_attempts = 1 where id = $1', [id]);
  await eventually(() => expect(runs).toBe(1));
  // The first answer after this may be of a poll, or of the settlement itself.
  for (let answers = 0; answers < 3; answers++) {
    const lost = proxy.loseAnswerWith('alive');
    if (answers === 0) open.fire();
    await lost;
  }
  await untilJobs(store.observer, [id], { status: 'done', attempts: 1 });
  expect(runs).toBe(1);
  expect(log.matching(/not this worker's any more/)).toEqual([]);
});

test('B27: an exchange over a connection that went silent is given up, and the work goes on over a new one', async () => {
  const { log } = await start([handler('k', async () => {})], { lease: 2_000, heartbeat: 600 });
  const [first] = (await insertJobs(store.observer, 1)) as [string];
  await untilJobs(store.observer, [first], { status: 'done' });
  proxy.stallPresent();
  const began = performance.now();
  const [id] = (await insertJobs(store.observer, 1)) as [string];
  await untilJobs(store.observer, [id], { status: 'done', attempts: 1 });
  // Half of the lease; then a reconnect and a poll, on a busy machine.
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(log.matching(/did not answer within/)).toHaveLength(1);
});

test('a row that somebody has locked is settled when it is free, and its job does not run again', async () => {
  const open = signal();
  let runs = 0;
  const { log } = await start([
    handler('k', async () => {
      runs += 1;
      await open.happened;
    }),
  ]);
  const [id] = (await insertJobs(store.observer, 1)) as [string];
  await eventually(() => expect(runs).toBe(1));
  const person = await store.connect();
  await person.begin();
  await person.query('select from pgqueue.jobs where id = $1 for update', [id]);
  open.fire();
  // Others are settled meanwhile.
  const others = await insertJobs(store.observer, 3);
  await untilJobs(store.observer, others, { status: 'done' });
  await untilJobs(store.observer, [id], { status: 'running' });
  await person.commit();
  await untilJobs(store.observer, [id], { status: 'done', attempts: 1 });
  expect(runs).toBe(4);
  expect(log.lines).toEqual([]);
});

test('B21: a claim that ran into statement_timeout is repeated, over the same connection', async () => {
  const { url, schema, observer } = store;
  const limited = new URL(url);
  limited.searchParams.set('options', '-c statement_timeout=200ms');
  worker = new TestWorker({ url: limited.href, schema }, [handler('k', async () => {})]);
  await worker.start();
  const person = await store.connect();
  await person.begin();
  await person.query('lock table pgqueue.jobs in access exclusive mode');
  await eventually(() => expect(worker?.log.matching(/statement timeout/)).toHaveLength(1));
  await person.commit();
  const ids = await insertJobs(observer, 3);
  await untilJobs(observer, ids, { status: 'done', attempts: 1 });
});
