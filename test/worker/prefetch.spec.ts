import { JobStore } from '../../lib/store/job-store.js';
import type { ExchangeRequest } from '../../lib/store/statements/exchange.js';
import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

// A worker whose jobs are short claims more of them than it has slots, so that no slot is empty while an
// exchange is on its way.

const { jest } = import.meta;

let store: TestStore;
const workers: TestWorker[] = [];
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop();
  jest.restoreAllMocks();
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers');
});
afterAll(() => store.close());

type Arguments = ConstructorParameters<typeof TestWorker>;

async function start(run: Parameters<typeof handler>[1], settings: Arguments[2]) {
  const worker = new TestWorker(store, [handler('k', run)], settings);
  workers.push(worker);
  await worker.start();
  return worker;
}

/** Counts the exchanges of all workers, and the jobs that they claimed. */
function watchExchanges() {
  const seen = { exchanges: 0, claimed: 0, requests: [] as ExchangeRequest[] };
  const { exchange } = JobStore.prototype;
  jest.spyOn(JobStore.prototype, 'exchange').mockImplementation(async function (
    this: JobStore,
    request,
    limit,
  ) {
    seen.exchanges += 1;
    seen.requests.push(request);
    const rows = await exchange.call(this, request, limit);
    seen.claimed += rows.filter(({ answer }) => answer === 'job').length;
    return rows;
  });
  return seen;
}

interface Stuck {
  readonly worker: TestWorker;
  /** The job that does not end before `open` fires. */
  readonly running: string;
  readonly open: Signal;
  /** Claimed and not begun. */
  readonly waiting: readonly string[];
  /** Jobs that began after the one that is stuck. */
  readonly begunLater: readonly string[];
}

/** A worker with one slot, many short jobs behind it and some claimed ahead, whose slot has become slow. */
async function stickWithJobsAhead(): Promise<Stuck> {
  const open = signal();
  const begunLater: string[] = [];
  let running: string | undefined;
  let mustStick = false;
  const held = () =>
    store.observer.rows<{ id: string }>(
      `select id from pgqueue.jobs where locked_by is not null order by id`,
    );
  const worker = await start(
    async ({ id, signal: stop }) => {
      if (running !== undefined) return void begunLater.push(id);
      if (!mustStick) return;
      running = id;
      await new Promise<void>((resolve) => {
        void open.happened.then(resolve);
        stop.addEventListener('abort', () => resolve());
      });
    },
    { concurrency: 1, shutdownGrace: 100 },
  );
  const seen = watchExchanges();
  await insertJobs(store.observer, 5_000);
  await eventually(() => expect(seen.claimed).toBeGreaterThan(1_000), { interval: 1 });
  mustStick = true;
  return eventually(async () => {
    const ids = (await held()).map(({ id }) => id);
    expect(ids).toContain(running);
    expect(ids.length).toBeGreaterThan(5);
    const stuck = String(running);
    const waiting = ids.filter((id) => BigInt(id) > BigInt(stuck));
    expect(waiting.length).toBeGreaterThan(5);
    return { worker, running: stuck, open, waiting, begunLater };
  });
}

test('20,000 short jobs in one slot are claimed by far fewer exchanges, and run in order', async () => {
  const ids = await insertJobs(store.observer, 20_000);
  const ran: string[] = [];
  const seen = watchExchanges();
  await start(async ({ id }) => ran.push(id), { concurrency: 1 });
  await eventually(() => expect(ran).toHaveLength(ids.length), { timeout: 25_000 });
  expect(ran).toEqual(ids);
  expect(seen.exchanges).toBeLessThan(1_000);
  await eventually(async () => {
    const left = await store.observer.value('select count(*)::int from pgqueue.jobs');
    expect(left).toBe(0);
  });
});

test('jobs of 300 ms in two slots are not claimed ahead', async () => {
  const seen = watchExchanges();
  let ended = 0;
  let mostHeld = 0;
  await start(
    async () => {
      mostHeld = Math.max(mostHeld, seen.claimed - ended);
      await store.database.callers.transaction((client) => client.query('select pg_sleep(0.3)'));
      ended += 1;
    },
    { concurrency: 2 },
  );
  await insertJobs(store.observer, 12);
  await eventually(() => {
    mostHeld = Math.max(mostHeld, seen.claimed - ended);
    expect(ended).toBe(12);
  });
  expect(mostHeld).toBeGreaterThanOrEqual(2);
  expect(mostHeld).toBeLessThanOrEqual(3);
});

test('jobs that have waited for a second behind a slow one are handed back, and another worker runs them', async () => {
  const { running, waiting, begunLater } = await stickWithJobsAhead();
  const ranElsewhere: { id: string; attempt: number }[] = [];
  await start(async ({ id, attempt }) => ranElsewhere.push({ id, attempt }), { concurrency: 1 });
  await eventually(
    () => expect(ranElsewhere.map(({ id }) => id)).toEqual(expect.arrayContaining([...waiting])),
    { timeout: 5_000 },
  );
  expect(new Set(ranElsewhere.map(({ attempt }) => attempt))).toEqual(new Set([1]));
  expect(begunLater).toEqual([]);
  await untilJobs(store.observer, [running], { status: 'running', attempts: 1 });
});

test('what was claimed ahead and has not begun is handed back at a stop, with its attempt', async () => {
  const { worker, running, waiting, begunLater } = await stickWithJobsAhead();
  await worker.worker.stop();
  expect(begunLater).toEqual([]);
  await untilJobs(store.observer, waiting, { status: 'queued', attempts: 0, locked_by: null });
  const left = await store.observer.rows<{ attempts: number; locked_by: string | null }>(
    'select distinct attempts, locked_by from pgqueue.jobs where id <> $1',
    [running],
  );
  expect(left).toEqual([{ attempts: 0, locked_by: null }]);
});

test('what was claimed ahead is handed back when the lease is lost, and runs in the next life', async () => {
  const { worker, running, waiting, begunLater } = await stickWithJobsAhead();
  const dead = await store.observer.value<string>(
    'update pgqueue.workers set dead_at = now() returning id',
  );
  await eventually(() => expect(worker.log.matching(/lost its lease/)).toHaveLength(1));
  await untilJobs(store.observer, waiting, { status: 'done', attempts: 1 });
  const holders = await store.observer.rows<{ locked_by: string }>(
    'select distinct locked_by from pgqueue.done_jobs where id = any ($1)',
    [waiting],
  );
  expect(holders).not.toContainEqual({ locked_by: dead });
  // Once each, none of them twice.
  expect(begunLater.filter((id) => id !== running)).toHaveLength(new Set(begunLater).size);
});
