import { eventually } from '../support/eventually.js';
import { endProcesses, removeBuild, WorkerProcess } from '../support/processes.js';
import { openStore, type TestStore } from '../support/store.js';

// Each starts processes, which takes a busy machine long.
import.meta.jest.setTimeout(60_000);

const LIMIT = 3;
const JOBS = 60;

let store: TestStore;
beforeAll(async () => {
  store = await openStore();
  await store.observer.query(
    `insert into pgqueue.limits (name, kinds, max_running) values ('quick', '{quick}', ${LIMIT})`,
  );
});
afterAll(async () => {
  await endProcesses();
  await removeBuild();
  await store.close();
});

function start(name: string): Promise<WorkerProcess> {
  const { url, schema } = store;
  return WorkerProcess.start({ url, schema, name, lease: 2_000, concurrency: 10 });
}

/** The most jobs that ran at once, by what the processes told: a killed one ran until then. */
function mostAtOnce(processes: readonly WorkerProcess[], since = 0): number {
  const steps = processes.flatMap((process) => {
    const end = process.endedAt ?? Infinity;
    const ended = new Map(process.all('finished').map(({ id, at }) => [id, at]));
    return process.all('started').flatMap(({ id, at }) => [
      { at, by: 1 },
      { at: ended.get(id) ?? end, by: -1 },
    ]);
  });
  let running = 0;
  let most = 0;
  for (const { at, by } of steps.toSorted((a, b) => a.at - b.at || a.by - b.by)) {
    running += by;
    if (at >= since) most = Math.max(most, running);
  }
  return most;
}

test('B54: a limit holds over three processes, one of which is killed, and its slots come back', async () => {
  const processes = await Promise.all(['a', 'b', 'c'].map(start));
  await store.observer.query(
    `insert into pgqueue.jobs (kind, payload)
     select 'quick', '{"ms": 60}' from generate_series(1, ${JOBS})`,
  );
  // Whichever holds a slot.
  const victim = await eventually(
    () => {
      const holder = processes.find(
        (process) => process.all('started').length > process.all('finished').length,
      );
      if (holder === undefined) throw new Error('No process runs a job');
      return holder;
    },
    { interval: 1 },
  );
  await victim.kill('SIGKILL');
  await eventually(
    async () => {
      expect(
        await store.observer.rows(
          'select status, count(*)::int from pgqueue.all_jobs group by status',
        ),
      ).toEqual([{ status: 'done', count: JOBS }]);
    },
    { timeout: 30_000, interval: 50 },
  );
  expect(mostAtOnce(processes)).toBe(LIMIT);
  const ids = processes.flatMap((process) => process.all('started')).map(({ id }) => id);
  expect(new Set(ids).size).toBe(JOBS);

  // What the killed one held can be used again.
  const killedAt = victim.endedAt ?? 0;
  const before = processes.flatMap((process) => process.all('started')).length;
  await store.observer.query(
    `insert into pgqueue.jobs (kind, payload)
     select 'quick', '{"ms": 200}' from generate_series(1, ${LIMIT})`,
  );
  await eventually(() => {
    expect(processes.flatMap((process) => process.all('started'))).toHaveLength(before + LIMIT);
  });
  expect(mostAtOnce(processes, killedAt)).toBe(LIMIT);
});
