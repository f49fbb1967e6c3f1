import { endProcesses, removeBuild, WorkerProcess } from '../support/processes.js';
import { eventually } from '../support/eventually.js';
import { openStore, type TestStore } from '../support/store.js';

const LEASE = 1_000;

// Each starts processes, which takes a busy machine long.
import.meta.jest.setTimeout(60_000);

let store: TestStore;
let stopSupervisor = async (): Promise<void> => {};
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  await stopSupervisor();
  await endProcesses();
});
afterAll(async () => {
  await removeBuild();
  await store.close();
});

/** Starts the process again whenever it ends; answers all there were, the one that runs included. */
function supervise(): WorkerProcess[] {
  const processes: WorkerProcess[] = [];
  const stopping = new AbortController();
  const supervised = (async () => {
    while (!stopping.signal.aborted) {
      const worker = await start().catch((error: unknown) => {
        if (!stopping.signal.aborted) throw error;
      });
      if (worker === undefined) return;
      processes.push(worker);
      if (stopping.signal.aborted) await worker.kill('SIGKILL');
      await worker.exited;
    }
  })();
  stopSupervisor = async () => {
    stopping.abort();
    await endProcesses();
    await supervised;
  };
  return processes;
}

function start(): Promise<WorkerProcess> {
  const { url, schema } = store;
  return WorkerProcess.start({ url, schema, name: 'w', lease: LEASE, pollInterval: 200 });
}

test('B18: a job that ends its process is run three times, spaced, and then failed; others complete', async () => {
  const poison = await store.observer.value<string>(
    `insert into pgqueue.jobs (kind, payload, max_attempts)
     values ('scripted', '{"*": [["exit", 1]]}', 3) returning id`,
  );
  await store.observer.query(
    `insert into pgqueue.jobs (kind, max_attempts) select 'quick', 5 from generate_series(1, 10)`,
  );
  const processes = supervise();

  const failed = await eventually(
    async () => {
      const [row] = await store.observer.rows<{ attempts: number; last_error: string }>(
        'select attempts, last_error from pgqueue.failed_jobs where id = $1',
        [poison],
      );
      if (row === undefined) throw new Error('It has not failed yet');
      return row;
    },
    { timeout: 25_000, interval: 100 },
  );
  expect(failed.attempts).toBe(3);
  expect(failed.last_error).toMatch(/died while it ran the job: its lease expired/);

  await eventually(async () => {
    const states = await store.observer.rows(
      `select status, count(*)::int from pgqueue.all_jobs where kind = 'quick' group by status`,
    );
    expect(states).toEqual([{ status: 'done', count: 10 }]);
  });

  const runs = processes.flatMap((process) =>
    process.all('started').filter(({ id }) => id === poison),
  );
  expect(runs.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  const [first, second, third] = runs.map(({ at }) => at) as [number, number, number];
  // The lease first, since nobody knows before that the process is gone. Then a delay too, of 2 s.
  expect(second - first).toBeGreaterThan(LEASE / 2);
  expect(third - second).toBeGreaterThan(LEASE / 2 + 2_000);
  const ended = processes.filter((process) => !process.isRunning);
  const exits = await Promise.all(ended.map((process) => process.exited));
  expect(exits).toEqual([1, 2, 3].map(() => ({ code: 1, signal: null })));
});
