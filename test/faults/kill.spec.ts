import { eventually } from '../support/eventually.js';
import { endProcesses, removeBuild, WorkerProcess } from '../support/processes.js';
import { openStore, type TestStore } from '../support/store.js';

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

function start(name: string): Promise<WorkerProcess> {
  const { url, schema } = store;
  return WorkerProcess.start({
    url,
    schema,
    name,
    lease: 2_000,
    pollInterval: 200,
    concurrency: 5,
  });
}

async function enqueue(count: number, ms: number): Promise<string[]> {
  const rows = await store.observer.rows<{ id: string }>(
    `insert into pgqueue.jobs (kind, payload)
     select 'quick', jsonb_build_object('ms', $2::int) from generate_series(1, $1::int) returning id`,
    [count, ms],
  );
  return rows.map(({ id }) => id);
}

/** Resolves when every job is done. */
async function untilDone(ids: readonly string[]): Promise<void> {
  await eventually(
    async () => {
      const states = await store.observer.rows(
        `select status, count(*)::int, count(distinct id)::int as ids
           from pgqueue.all_jobs where id = any ($1) group by status`,
        [ids],
      );
      expect(states).toEqual([{ status: 'done', count: ids.length, ids: ids.length }]);
    },
    { timeout: 20_000, interval: 50 },
  );
}

function runsOf(processes: readonly WorkerProcess[]): Map<string, number> {
  const runs = new Map<string, number>();
  for (const { id } of processes.flatMap((process) => process.all('started'))) {
    runs.set(id, (runs.get(id) ?? 0) + 1);
  }
  return runs;
}

test('a worker killed in the middle of 100 jobs loses none: all end done, and only what it ran runs twice', async () => {
  const [victim, survivor] = await Promise.all([start('a'), start('b')]);
  const ids = await enqueue(100, 20);
  await eventually(() => expect(victim.all('finished').length).toBeGreaterThan(10), {
    interval: 1,
  });
  await victim.kill('SIGKILL');
  await untilDone(ids);

  const runs = runsOf([victim, survivor]);
  expect(new Set(runs.keys())).toEqual(new Set(ids));
  const held = new Set(victim.all('started').map(({ id }) => id));
  for (const [id, times] of runs) expect(times).toBeLessThanOrEqual(held.has(id) ? 2 : 1);
});

test('invariant 3: without faults no job runs twice, in three processes', async () => {
  const processes = await Promise.all([start('a'), start('b'), start('c')]);
  const ids = await enqueue(500, 1);
  await untilDone(ids);
  const runs = runsOf(processes);
  expect([...runs.keys()].sort()).toEqual([...ids].sort());
  expect([...runs.values()].filter((times) => times > 1)).toEqual([]);
  // All of them worked.
  for (const process of processes) expect(process.all('finished').length).toBeGreaterThan(0);
});
