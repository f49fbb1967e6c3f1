import { eventually } from '../support/eventually.js';
import { endProcesses, removeBuild, WorkerProcess } from '../support/processes.js';
import { openStore, type TestStore } from '../support/store.js';
import type { Script } from '../support/worker-app/settings.js';

// Each starts processes, which takes a busy machine long.
import.meta.jest.setTimeout(60_000);

let store: TestStore;
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  await endProcesses();
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers');
});
afterAll(async () => {
  await removeBuild();
  await store.close();
});

const LEASE = 2_000;

function start(name: string, clockShift?: number): Promise<WorkerProcess> {
  const { url, schema } = store;
  const settings = { url, schema, name, lease: LEASE, pollInterval: 200, concurrency: 1 };
  return WorkerProcess.start(settings, clockShift === undefined ? {} : { clockShift });
}

function enqueue(script: Script): Promise<string> {
  return store.observer.value(
    `insert into pgqueue.jobs (kind, payload) values ('scripted', $1) returning id`,
    [JSON.stringify(script)],
  );
}

test('B14: what a blocked process reports after its lease is not stored, and it is told', async () => {
  const script: Script = { a: [['block', 5_000]], b: [['wait', 4_000]] };
  const a = await start('a');
  const id = await enqueue(script);
  await a.heardOf('started');
  const b = await start('b');
  const taken = await b.heardOf('started');
  expect(taken).toMatchObject({ id, attempt: 2 });

  await a.heardOf('finished');
  expect(await a.heardOf('aborted')).toMatchObject({ id, code: 'LEASE_LOST' });
  await b.heardOf('finished');
  await eventually(async () => {
    const [row] = await store.observer.rows(
      'select status, result, attempts from pgqueue.all_jobs where id = $1',
      [id],
    );
    expect(row).toEqual({ status: 'done', result: 'b', attempts: 2 });
  });
  expect(await store.observer.rows('select id from pgqueue.done_jobs where id = $1', [id])).toEqual(
    [{ id }],
  );

  // Both live on: each runs a job of its own.
  await Promise.all([enqueue({ '*': [['wait', 500]] }), enqueue({ '*': [['wait', 500]] })]);
  await a.heardOf('started', (report) => report.id !== id);
  await b.heardOf('started', (report) => report.id !== id);
  expect([...a.all('fault'), ...b.all('fault')]).toEqual([]);
});

test('B17: processes whose clocks are ten minutes off neither lose leases nor take them, and delay alike', async () => {
  const tenMinutes = 600_000;
  const processes = await Promise.all([
    start('exact'),
    start('fast', tenMinutes),
    start('slow', -tenMinutes),
  ]);
  // One for each, longer than a lease.
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) ids.push(await enqueue({ '*': [['wait', LEASE * 1.5]] }));
  await Promise.all(processes.map((process) => process.heardOf('started')));

  const delay = 1_000;
  const delayed = await Promise.all(
    processes.map(async (process) => {
      process.send({ enqueue: 'quick', delay });
      return (await process.heardOf('enqueued')).id;
    }),
  );
  await eventually(async () => {
    const rows = await store.observer.rows(
      `select status, attempts, extract(epoch from run_at - created_at)::float8 * 1000 as delay,
              finished_at >= run_at as waited
         from pgqueue.done_jobs where id = any ($1)`,
      [delayed],
    );
    expect(rows).toHaveLength(3);
    for (const row of rows) {
      expect(row).toMatchObject({ status: 'done', attempts: 1, waited: true });
      expect((row as { delay: number }).delay).toBeGreaterThan(delay - 50);
      expect((row as { delay: number }).delay).toBeLessThan(delay + 50);
    }
  });
  await Promise.all(processes.map((process) => process.heardOf('finished')));

  const runs = processes.flatMap((process) => process.all('started'));
  expect(runs.map(({ id }) => id).sort()).toEqual([...ids, ...delayed].sort());
  expect(processes.flatMap((process) => process.all('aborted'))).toEqual([]);
  const log = processes.flatMap((process) => process.all('log').map(({ text }) => text));
  expect(log.filter((line) => /dead|lost its lease/.test(line))).toEqual([]);
});
