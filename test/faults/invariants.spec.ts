import { setTimeout as pause } from 'node:timers/promises';
import { startPostgres } from '../../scripts/postgres.mjs';
import { QueueRuntime } from '../../lib/pg-queue.module-runtime.js';
import { eventually } from '../support/eventually.js';
import { endProcesses, removeBuild, WorkerProcess } from '../support/processes.js';
import { seededRandom } from '../support/random.js';
import { once, openStore, type TestStore } from '../support/store.js';
import { Ledger, overlaps, runsOf, type Run } from './ledger.support.js';
import { Producer } from './producer.support.js';
import { Watcher } from './watcher.support.js';

/** Repeat a run with SEED=… */
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000);
const KILLS = 5;
const LEASE = 3_000;

interface Settled {
  readonly id: string;
  readonly status: string;
  readonly attempts: number;
  readonly max_attempts: number;
}

const random = seededRandom(SEED);
const ledger = new Ledger();
const processes: WorkerProcess[] = [];
/** Being started while the storm goes on. */
const replacements: Promise<WorkerProcess>[] = [];
let stopServer = async (): Promise<void> => {};
let store: TestStore;
let watcher: Watcher;
let settled: Settled[];
let runs: Run[];

// One storm for all tests below: three workers of which one is killed again and again, callers, and a server
// that crashes in the middle of it. Then it calms down, and the tests look at what it left.
beforeAll(async () => {
  process.stdout.write(`The storm has the seed ${SEED}\n`);
  // A server of its own, since it will crash.
  const server = await startPostgres({ major: 18 });
  stopServer = server.stop;
  store = await openStore({ url: server.url });
  const { url, schema } = store;
  const caller = new QueueRuntime('default', { connectionString: url, schema, worker: false });
  const producers = [1, 2].map((n) => new Producer(caller.service, ledger, seededRandom(SEED + n)));
  watcher = new Watcher(url, schema, ledger);
  try {
    processes.push(...(await Promise.all(['a', 'b', 'c'].map(startWorker))));
    for (let kill = 1; kill <= KILLS; kill++) {
      await pause(200 + random() * 1_000);
      if (kill === Math.ceil(KILLS / 2)) await crashServer(url);
      else await replaceOne();
    }
    for (const producer of producers) await producer.stop();
    processes.push(...(await Promise.all(replacements.splice(0))));
    await untilNothingIsPending();
  } finally {
    for (const producer of producers) await producer.stop();
    await watcher.stop();
    await caller.close();
  }
  settled = await once(url, async (client) => {
    const { rows } = await client.query<Settled>(
      `select id, status, attempts, max_attempts from "${schema}".all_jobs`,
    );
    return rows;
  });
  runs = runsOf(processes);
}, 120_000);

afterAll(async () => {
  await removeBuild();
  await store?.database.close();
  await store?.observer.close().catch(() => {});
  await stopServer();
});

function startWorker(name: string): Promise<WorkerProcess> {
  const { url, schema } = store;
  return WorkerProcess.start({
    url,
    schema,
    name,
    lease: LEASE,
    pollInterval: 200,
    concurrency: 5,
  });
}

async function replaceOne(): Promise<void> {
  const alive = () => processes.filter((worker) => worker.isRunning);
  // Somebody stays, also where processes take long to start.
  while (alive().length < 2) processes.push(...(await Promise.all(replacements.splice(0, 1))));
  const victim = alive()[Math.floor(random() * alive().length)];
  if (victim === undefined) throw new Error('No worker is left');
  await victim.kill('SIGKILL');
  const starting = startWorker(`${victim.name}'`);
  starting.catch(() => {}); // whoever waits for it is told
  replacements.push(starting);
}

/** A backend that dies by SIGKILL takes every session with it: the server recovers as after a crash. */
async function crashServer(url: string): Promise<void> {
  await once(url, async (client) => {
    client.on('error', () => {});
    await client.query(
      `do $do$ begin execute format('copy (select 1) to program %L', 'kill -9 ' || pg_backend_pid()); end $do$`,
    );
  }).catch(() => {});
  await eventually(() => once(url, (client) => client.query('select 1')));
}

async function untilNothingIsPending(): Promise<void> {
  await eventually(
    () =>
      once(store.url, async (client) => {
        const { rows } = await client.query(
          `select id, kind, status, attempts, last_error from "${store.schema}".jobs limit 5`,
        );
        expect(rows).toEqual([]);
      }),
    { timeout: 30_000, interval: 100 },
  );
}

test('the storm was one: jobs were accepted, rolled back, killed, failed and retried by hand, and the server was away', () => {
  expect(ledger.accepted.size).toBeGreaterThan(200);
  expect(ledger.rolledBack.size).toBeGreaterThan(5);
  expect(ledger.retried.size).toBeGreaterThan(0);
  expect(watcher.looks).toBeGreaterThan(20);
  expect(processes.filter((worker) => !worker.isRunning)).toHaveLength(KILLS - 1);
  expect(settled.filter(({ status }) => status === 'failed').length).toBeGreaterThan(0);
  const log = processes.flatMap((worker) => worker.all('log').map(({ text }) => text));
  expect(log.some((line) => line.includes('The database answers again'))).toBe(true);
});

test('invariants 1, 4 and 5: at every moment each accepted job was in one place, within its attempts, alone under its key', () => {
  expect([...watcher.violations]).toEqual([]);
});

test('invariant 1: every accepted job has ended, and none of a transaction that rolled back ever ran', () => {
  const ends = new Map(settled.map(({ id, status }) => [id, status]));
  const lost = [...ledger.accepted].filter(
    (id) => !['done', 'failed'].includes(ends.get(id) ?? ''),
  );
  expect(lost).toEqual([]);
  expect(runs.filter(({ id }) => ledger.rolledBack.has(id))).toEqual([]);
});

test('invariant 2: no job ran in two workers at once', () => {
  expect(overlaps(runs)).toEqual([]);
});

test('invariant 3: no job was run again after it was done', () => {
  const done = new Map(
    settled
      .filter(({ id, status }) => status === 'done' && !ledger.retried.has(id))
      .map(({ id, attempts }) => [id, attempts]),
  );
  expect(runs.filter(({ id, attempt }) => attempt > (done.get(id) ?? Infinity))).toEqual([]);
  const ran = new Set(runs.map(({ id }) => id));
  expect([...done.keys()].filter((id) => !ran.has(id))).toEqual([]);
});

test('invariant 4: a job that failed for good had spent its attempts', () => {
  const early = settled.filter(
    ({ status, attempts, max_attempts }) => status === 'failed' && attempts < max_attempts,
  );
  expect(early).toEqual([]);
});

test('invariant 5: no caller and no worker was shown a unique violation, or any error but the outage', () => {
  expect(ledger.faults).toEqual([]);
  const log = processes.flatMap((worker) => worker.all('log').map(({ text }) => text));
  expect(log.filter((line) => /23505|duplicate key|counts as failed/.test(line))).toEqual([]);
});

test('invariant 7: the workers that were not killed live on, without a fault, and work', async () => {
  expect(processes.flatMap((worker) => worker.all('fault'))).toEqual([]);
  const alive = processes.filter((worker) => worker.isRunning);
  expect(alive).toHaveLength(3);
  const id = await once(store.url, async (client) => {
    const { rows } = await client.query<{ id: string }>(
      `insert into "${store.schema}".jobs (kind) values ('quick') returning id`,
    );
    return rows[0]?.id;
  });
  await Promise.race(alive.map((worker) => worker.heardOf('finished', (end) => end.id === id)));
  await endProcesses();
});
