import { randomUUID } from 'node:crypto';
import type { JobEvent } from '../../lib/contracts/job-events.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

let store: TestStore;
const workers: TestWorker[] = [];
beforeAll(async () => {
  store = await openStore();
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop();
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.failed_jobs');
});
afterAll(() => store.close());

async function start(handlers: ConstructorParameters<typeof TestWorker>[1]) {
  const events: JobEvent[] = [];
  const ended: string[] = [];
  const sink = {
    isObserved: true,
    emit: (event: JobEvent) => events.push(event),
    emitEnded: (ids: readonly string[]) => ended.push(...ids),
  };
  const worker = new TestWorker({ url: store.url, schema: store.schema }, handlers, {}, sink);
  workers.push(worker);
  await worker.start();
  return { events, ended, types: () => events.map(({ type, id }) => `${type} ${id}`) };
}

test('an attempt whose job somebody else has by then is told as lost, and as nothing else', async () => {
  const begun = signal();
  const open = signal();
  const { types } = await start([
    handler('k', async () => {
      begun.fire();
      await open.happened;
    }),
  ]);
  const [id] = (await insertJobs(store.observer, 1)) as [string];
  await begun.happened;
  await store.observer.query('update pgqueue.jobs set locked_by = $1, lease_no = lease_no + 1', [
    randomUUID(),
  ]);
  open.fire();
  await eventually(() => expect(types()).toEqual([`started ${id}`, `leaseLost ${id}`]));
});

test('the end of a job that somebody has locked is told of when it is stored', async () => {
  const begun = signal();
  const open = signal();
  const { types } = await start([
    handler('k', async () => {
      begun.fire();
      await open.happened;
    }),
  ]);
  const [id] = (await insertJobs(store.observer, 1)) as [string];
  await begun.happened;
  const session = await store.connect();
  await session.begin();
  await session.query('select from pgqueue.jobs where id = $1 for update', [id]);
  open.fire();
  const other = (await insertJobs(store.observer, 1)) as [string];
  await eventually(() => expect(types()).toContain(`completed ${other[0]}`));
  expect(types()).not.toContain(`completed ${id}`);
  await session.rollback();
  await eventually(() => expect(types()).toContain(`completed ${id}`));
  await untilJobs(store.observer, [id], { status: 'done' });
});

test('jobs that end without an attempt here are told of: spent ones, and those of dead workers', async () => {
  const dead = randomUUID();
  const ids = await insertJobs(store.observer, 3);
  const [spent, orphan, freed] = ids as [string, string, string];
  await store.observer.query(
    `insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until)
     values ($1, 'gone', 'host', 1, '0', '{default}', '{k}', now() - interval '1 s')`,
    [dead],
  );
  await store.observer.query('update pgqueue.jobs set attempts = 5 where id = $1', [spent]);
  await store.observer.query(
    `update pgqueue.jobs set locked_by = $1, lease_no = 1, attempts = case id when $2 then 5 else 1 end
      where id in ($2, $3)`,
    [dead, orphan, freed],
  );
  const { ended, types } = await start([handler('k', async () => {})]);
  await untilJobs(store.observer, ids, [
    { status: 'failed' },
    { status: 'failed' },
    { status: 'done' },
  ]);
  await eventually(() => expect(ended.sort()).toEqual([spent, orphan].sort()));
  await eventually(() => expect(types()).toEqual([`started ${freed}`, `completed ${freed}`]));
});
