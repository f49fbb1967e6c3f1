import { eventually } from '../support/eventually.js';
import { endProcesses, removeBuild, WorkerProcess } from '../support/processes.js';
import type { Script } from '../support/worker-app/settings.js';
import { openStore, type TestStore } from '../support/store.js';

// Each starts processes, which takes a busy machine long.
import.meta.jest.setTimeout(60_000);

let store: TestStore;
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  await endProcesses();
  await store.observer.query(
    'truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs, pgqueue.workers',
  );
});
afterAll(async () => {
  await removeBuild();
  await store.close();
});

/** A process with a lease of two seconds, so that no test waits long for it. */
function start(name: string, settings: object = {}): Promise<WorkerProcess> {
  const { url, schema } = store;
  return WorkerProcess.start({ url, schema, name, lease: 2_000, pollInterval: 300, ...settings });
}

async function enqueue(script: Script, maxAttempts = 3): Promise<string> {
  return store.observer.value(
    `insert into pgqueue.jobs (kind, payload, max_attempts) values ('scripted', $1, $2) returning id`,
    [JSON.stringify(script), maxAttempts],
  );
}

interface Row {
  status: string;
  attempts: number;
  last_error: string | null;
}

async function row(id: string): Promise<Row> {
  const [found] = await store.observer.rows<Row>(
    'select status, attempts, last_error from pgqueue.all_jobs where id = $1',
    [id],
  );
  if (found === undefined) throw new Error(`There is no job ${id}`);
  return found;
}

test('B43: SIGTERM lets a job end, with everything it uses, and begins no other', async () => {
  const worker = await start('a', { concurrency: 1, shutdownGrace: 10_000 });
  const id = await enqueue({
    a: [['wait', 500], ['enqueue', 'quick'], ['use journal'], ['wait', 300]],
  });
  await worker.heardOf('started');
  const next = await enqueue({});
  await worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });

  expect(await row(id)).toMatchObject({ status: 'done', attempts: 1 });
  expect(worker.all('started').map((report) => report.id)).toEqual([id]);
  expect(await row(next)).toMatchObject({ status: 'queued', attempts: 0 });
  const [followUp] = await store.observer.rows<{ status: string }>(
    `select status from pgqueue.all_jobs where kind = 'quick'`,
  );
  expect(followUp).toEqual({ status: 'queued' });
  const story = worker.reports.map(({ event }) => event).filter((event) => event !== 'log');
  expect(story).toEqual(['ready', 'started', 'journal used', 'finished', 'journal closed']);
  expect(await store.observer.rows('select id from pgqueue.workers')).toEqual([]);
});

test('B45: a process without shutdown hooks is warned at start, and its job runs again after the lease', async () => {
  const worker = await start('a', { hooks: false });
  const id = await enqueue({ a: [['wait', 60_000]] });
  await worker.heardOf('started');
  const { text } = await worker.heardOf('log', ({ level }) => level === 'warn');
  expect(text).toMatch(/SIGTERM.*enableShutdownHooks/);
  await worker.kill('SIGTERM');
  expect(await worker.exited).toMatchObject({ signal: 'SIGTERM' });
  expect(await row(id)).toMatchObject({ status: 'running', attempts: 1 });

  const other = await start('b');
  await other.heardOf('finished');
  await eventually(async () =>
    expect(await row(id)).toMatchObject({ status: 'done', attempts: 2 }),
  );
});

test('B45: a job longer than the grace time is released at once, with its attempt', async () => {
  const worker = await start('a', { shutdownGrace: 300 });
  const id = await enqueue({ a: [['wait', 60_000]] });
  await worker.heardOf('started');
  const began = performance.now();
  await worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });
  // The grace time, a second for the farewell, and what a busy machine takes.
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(worker.all('aborted')).toMatchObject([{ id, code: 'SHUTTING_DOWN' }]);
  expect(await row(id)).toMatchObject({ status: 'queued', attempts: 0 });

  const other = await start('b');
  await other.heardOf('finished');
  await eventually(async () =>
    expect(await row(id)).toMatchObject({ status: 'done', attempts: 1 }),
  );
});

test('B45: the job of a process that is killed runs elsewhere within its lease and a heartbeat', async () => {
  const [worker, other] = await Promise.all([start('a', { concurrency: 1 }), start('b')]);
  const id = await enqueue({ a: [['wait', 60_000]], b: [['wait', 60_000]] });
  const [victim, survivor] = await Promise.race([
    worker.heardOf('started').then(() => [worker, other] as const),
    other.heardOf('started').then(() => [other, worker] as const),
  ]);
  await victim.kill('SIGKILL');
  const { at, attempt } = await survivor.heardOf('started');
  expect(attempt).toBe(2);
  // 2 s and a third of it, a poll, and what a busy machine takes.
  expect(at - (victim.endedAt ?? 0)).toBeLessThan(2_000 + 667 + 300 + 1_000);
  expect(await row(id)).toMatchObject({ status: 'running', attempts: 2 });
  expect((await row(id)).last_error).toMatch(/lease expired/);
});
