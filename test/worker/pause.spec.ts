import { JobStore } from '../../lib/store/job-store.js';
import { pause, resize, resume } from '../../lib/store/statements/queues.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

// What a pause, its end and new numbers of slots do to a worker that runs.

const { jest } = import.meta;

let store: TestStore;
const workers: TestWorker[] = [];
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop();
  jest.restoreAllMocks();
  await store.observer.query(
    'truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers, pgqueue.kinds',
  );
  await store.observer.query('delete from pgqueue.queues');
});
afterAll(() => store.close());

type Settings = ConstructorParameters<typeof TestWorker>[2];

/** Hears of everything by its listener, since it polls so seldom. */
const LISTENING = { listen: true, pollInterval: 3_600_000 } as const;
/** Hears of nothing, and polls. */
const POLLING = { listen: false, pollInterval: 50 } as const;

async function start(
  run: Parameters<typeof handler>[1],
  settings: Settings,
  options: Parameters<typeof handler>[2] = {},
): Promise<TestWorker> {
  const worker = new TestWorker(store, [handler('k', run, options)], settings);
  workers.push(worker);
  await worker.start();
  return worker;
}

const HANDED_BACK = { locked_by: null, attempts: 0 };

describe.each([
  ['that listens', LISTENING],
  ['that polls', POLLING],
])('a worker %s', (_, settings) => {
  test.each([{ queue: 'b' }, { kind: 'k' }])(
    'hands back at once what it has claimed and not begun of %j; what runs goes on, and the end of the pause wakes it',
    async (target) => {
      const open = signal();
      const began: string[] = [];
      const rows = await store.observer.rows<{ id: string }>(
        `insert into pgqueue.jobs (queue, kind) values ('a', 'k'), ('b', 'k') returning id`,
      );
      const [running = '', waiting = ''] = rows.map(({ id }) => id);
      // A kind with one turn that stands in two queues: both jobs are claimed at once, and one waits in memory.
      await start(
        async ({ id }) => {
          began.push(id);
          await open.happened;
        },
        {
          ...settings,
          queues: new Map([
            ['a', 5],
            ['b', 5],
          ]),
        },
        { queue: 'elsewhere', concurrency: 1 },
      );
      await untilJobs(store.observer, [running, waiting], { status: 'running' });

      await store.observer.run(pause, target);
      await untilJobs(store.observer, [waiting], HANDED_BACK);
      await untilJobs(store.observer, [running], { status: 'running' });
      open.fire();
      await untilJobs(store.observer, [running], { status: 'done' });
      await untilJobs(store.observer, [waiting], HANDED_BACK);
      expect(began).toEqual([running]);

      await store.observer.run(resume, target);
      await untilJobs(store.observer, [waiting], { status: 'done', attempts: 1 });
    },
  );

  test('takes more slots, and fewer again, while it runs', async () => {
    let open = signal();
    let running = 0;
    let most = 0;
    await start(
      async () => {
        running += 1;
        most = Math.max(most, running);
        await open.happened;
        running -= 1;
      },
      { ...settings, concurrency: 1 },
    );
    const first = await insertJobs(store.observer, 3);
    await eventually(() => expect(running).toBe(1));
    await store.observer.run(resize, { queue: 'default', concurrency: 3 });
    await untilJobs(store.observer, first, { status: 'running' });
    await eventually(() => expect(running).toBe(3));

    const applied = watchSettings();
    await store.observer.run(resize, { queue: 'default', concurrency: null });
    await eventually(() => expect(applied).toContainEqual(NOTHING_SAID));
    open.fire();
    await untilJobs(store.observer, first, { status: 'done' });
    open = signal();
    open.fire();
    most = 0;
    const second = await insertJobs(store.observer, 5);
    await untilJobs(store.observer, second, { status: 'done' });
    expect(most).toBe(1);
  });
});

const NOTHING_SAID = { pausedQueues: [], pausedKinds: [], concurrency: [] };

/** The settings that workers read from now on. */
function watchSettings(): unknown[] {
  const read: unknown[] = [];
  const { queueSettings } = JobStore.prototype;
  jest.spyOn(JobStore.prototype, 'queueSettings').mockImplementation(async function (
    this: JobStore,
    ...args
  ) {
    const settings = await queueSettings.apply(this, args);
    read.push(settings);
    return settings;
  });
  return read;
}

test('a claim on its way while a queue is paused brings jobs that do not begin', async () => {
  const ran: string[] = [];
  const answered = signal();
  const release = signal();
  const { exchange } = JobStore.prototype;
  jest.spyOn(JobStore.prototype, 'exchange').mockImplementation(async function (
    this: JobStore,
    ...args
  ) {
    const rows = await exchange.apply(this, args);
    if (rows.some(({ answer }) => answer === 'job')) {
      answered.fire();
      await release.happened;
    }
    return rows;
  });
  const read = watchSettings();
  await start(async ({ id }) => ran.push(id), LISTENING);
  const ids = await insertJobs(store.observer, 1);
  await answered.happened;
  await store.observer.run(pause, { queue: 'default' });
  await eventually(() => expect(read.at(-1)).toMatchObject({ pausedQueues: ['default'] }));
  release.fire();
  await untilJobs(store.observer, ids, HANDED_BACK);
  expect(ran).toEqual([]);
  await store.observer.run(resume, { queue: 'default' });
  await untilJobs(store.observer, ids, { status: 'done', attempts: 1 });
});

test('a job of a queue that goes on begins, although the worker has not heard of that', async () => {
  await store.observer.run(pause, { queue: 'default' });
  const { worker } = await start(async () => {}, { listen: false, pollInterval: 3_600_000 });
  const ids = await insertJobs(store.observer, 1);
  await worker.idle();
  await store.observer.run(resume, { queue: 'default' });
  await worker.idle();
  // In its first claim: it was not handed back in vain.
  const [row] = await store.observer.rows(
    'select status, lease_no from pgqueue.done_jobs where id = any ($1)',
    [ids],
  );
  expect(row).toEqual({ status: 'done', lease_no: 1 });
});

test('the first claim of a worker knows what is paused, and the slots of its queues', async () => {
  await store.observer.run(resize, { queue: 'default', concurrency: 1 });
  const open = signal();
  const mayRead = signal();
  const { queueSettings } = JobStore.prototype;
  jest.spyOn(JobStore.prototype, 'queueSettings').mockImplementation(async function (
    this: JobStore,
    ...args
  ) {
    await mayRead.happened;
    return queueSettings.apply(this, args);
  });
  const ids = await insertJobs(store.observer, 5);
  await start(() => open.happened, LISTENING);
  await untilJobs(store.observer, ids, { status: 'queued', attempts: 0 });
  mayRead.fire();
  await untilJobs(store.observer, ids.slice(0, 1), { status: 'running' });
  await untilJobs(store.observer, ids.slice(1), { status: 'queued', attempts: 0 });
  open.fire();
  await untilJobs(store.observer, ids, { status: 'done' });
});

test('jobs of a paused kind are set aside within moments, and back as soon as it goes on', async () => {
  await start(async () => {}, LISTENING);
  await store.observer.run(pause, { kind: 'k' });
  const ids = await insertJobs(store.observer, 3);
  await store.observer.query(`update pgqueue.maintenance set next_at = now()`);
  await store.observer.run(pause, { kind: 'another' });
  await untilJobs(store.observer, ids, { status: 'waiting' });
  await store.observer.run(resume, { kind: 'k' });
  await untilJobs(store.observer, ids, { status: 'done' });
});
