import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

let store: TestStore;
let worker: TestWorker | undefined;
beforeAll(async () => {
  store = await openStore();
  // The database refuses what says so, as a constraint of the application would.
  await store.observer.query(`
    create function pgqueue.refuse() returns trigger language plpgsql as $fn$
    begin
      perform pg_advisory_xact_lock_shared(4711);
      perform nextval('pgqueue.refusals');
      raise exception 'this row is refused' using errcode = '22023';
    end $fn$;
    create sequence pgqueue.refusals;
    create trigger refuse before insert on pgqueue.done_jobs
      for each row when (new.payload ->> 'bad' = 'true') execute function pgqueue.refuse();
    create trigger refuse before insert on pgqueue.failed_jobs
      for each row when (new.payload ->> 'stubborn' = 'true') execute function pgqueue.refuse();`);
});
afterEach(() => worker?.stop());
afterAll(() => store.close());

/** A handler whose jobs run until they are let go, and how many do. */
function gate(): { run: () => Promise<void>; open: Signal; running: () => number } {
  const open = signal();
  let running = 0;
  const run = async () => {
    running += 1;
    await open.happened;
  };
  return { run, open, running: () => running };
}

function markBad(id: string, payload: object): Promise<unknown> {
  return store.observer.query('update pgqueue.jobs set payload = $2 where id = $1', [id, payload]);
}

test('a settlement that the database refuses is failed with the reason, and the rest of its batch is settled', async () => {
  const ids = await insertJobs(store.observer, 20);
  const [bad] = ids.slice(12) as [string];
  await markBad(bad, { bad: true });
  const { run, open, running } = gate();
  worker = new TestWorker(store, [handler('k', run)], { concurrency: 20 });
  await worker.start();
  await eventually(() => expect(running()).toBe(20));
  open.fire();

  const refused = {
    id: bad,
    status: 'failed',
    last_error: expect.stringContaining('this row is refused') as string,
  };
  await untilJobs(
    store.observer,
    ids,
    ids.map((id) => (id === bad ? refused : { id, status: 'done', attempts: 1 })),
  );
  expect(running()).toBe(20);
  expect(worker.log.matching(/counts as failed/)).toHaveLength(1);
  expect(worker.log.matching(/can't be asked for jobs/)).toEqual([]);
});

test('a job that ends while a bad settlement is refused is not taken for it', async () => {
  const [bad, good] = (await insertJobs(store.observer, 2)) as [string, string];
  await markBad(bad, { bad: true });
  const gates = { [bad]: gate(), [good]: gate() };
  const run = ({ id }: { id: string }) => gates[id]!.run();
  worker = new TestWorker(store, [handler('k', run)]);
  await worker.start();
  await eventually(() => expect(gates[good]!.running() + gates[bad]!.running()).toBe(2));

  const holder = await store.connect();
  await holder.query('select pg_advisory_lock(4711)');
  gates[bad]!.open.fire();
  await eventually(async () => {
    const waiting = await store.observer.value(
      `select count(*)::int from pg_locks where locktype = 'advisory' and objid = 4711 and not granted`,
    );
    expect(waiting).toBe(1);
  });
  gates[good]!.open.fire();
  await new Promise(setImmediate);
  await holder.close();

  await untilJobs(
    store.observer,
    [bad, good],
    [
      { id: bad, status: 'failed' },
      { id: good, status: 'done' },
    ],
  );
});

test('an outcome that can not even be recorded as failed is tried again with pauses, and nothing waits for it', async () => {
  const [bad, good] = (await insertJobs(store.observer, 2)) as [string, string];
  await markBad(bad, { bad: true, stubborn: true });
  const refusals = () =>
    store.observer.value<number>('select last_value::int from pgqueue.refusals');
  const before = await refusals();
  const ran: string[] = [];
  worker = new TestWorker(store, [handler('k', async ({ id }) => ran.push(id))]);
  await worker.start();
  await untilJobs(store.observer, [good], { status: 'done' });
  await eventually(async () => expect(await refusals()).toBeGreaterThan(before + 1));
  for (const id of await insertJobs(store.observer, 5)) {
    await untilJobs(store.observer, [id], { status: 'done' });
  }
  // As done once or with the other one, without its result, as failed once; more only after a pause.
  expect((await refusals()) - before).toBeLessThan(8);
  expect(worker.log.matching(/counts as failed/)).toHaveLength(1);

  await store.observer.query('drop trigger refuse on pgqueue.failed_jobs');
  await untilJobs(store.observer, [bad], { status: 'failed' });
  expect(ran.filter((id) => id === bad)).toHaveLength(1);
});

test('a claim that the database refuses does not condemn the settlement that went with it', async () => {
  const [good] = (await insertJobs(store.observer, 1)) as [string];
  const { run, open, running } = gate();
  worker = new TestWorker(store, [handler('k', run)]);
  await worker.start();
  await eventually(() => expect(running()).toBe(1));
  // Due with its attempts spent: the claim that meets it would bury it, and is refused.
  await store.observer.query(`
    create trigger refuse before insert on pgqueue.failed_jobs
      for each row when (new.payload ->> 'stubborn' = 'true') execute function pgqueue.refuse();
    insert into pgqueue.jobs (kind, payload, attempts, max_attempts)
      values ('k', '{"stubborn": true}', 1, 1)`);
  open.fire();
  await untilJobs(store.observer, [good], { status: 'done' });
  expect(worker.log.matching(/counts as failed/)).toEqual([]);
});
