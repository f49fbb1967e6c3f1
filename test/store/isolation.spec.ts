import type { PgQueueOptions } from '../../lib/contracts/options.js';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { Database } from '../../lib/store/database.js';
import { JobStore } from '../../lib/store/job-store.js';
import { migrate } from '../../lib/store/migrator.js';
import { statement } from '../../lib/store/statement.js';
import {
  done,
  draft,
  exchange,
  once,
  openStore,
  startWorker,
  type TestStore,
} from '../support/store.js';

// Where the database or the role has another default, the engine's statements still run READ COMMITTED.

const LEVELS = ['read committed', 'repeatable read', 'serializable'] as const;

const isolation = statement<void, string | null>({
  text: `select current_setting('transaction_isolation') as level`,
  values: () => [],
  row: ({ level }) => level ?? null,
});

let t: TestStore;

beforeAll(async () => {
  t = await openStore({ ownDatabase: true, days: false });
});
afterAll(() => t.close());

describe.each(LEVELS)('with %s as the default of the database', (level) => {
  let options: PgQueueOptions;
  let database: Database;
  let store: JobStore;

  beforeAll(async () => {
    const name = new URL(t.url).pathname.slice(1);
    await once(t.url, (client) =>
      client.query(`alter database ${name} set default_transaction_isolation = '${level}'`),
    );
    options = { connectionString: t.url, schema: `level ${level}` };
    database = new Database(resolveOptions(options));
    store = new JobStore(database);
    await migrate(database);
    await store.makeDaysAhead();
  });
  afterAll(() => database.close());

  test('every statement runs read committed, the engine’s and the callers’', async () => {
    const ask = () => [
      database.engine.run(isolation, undefined),
      database.callers.run(isolation, undefined),
    ];
    for (const levels of await Promise.all([...ask(), ...ask(), ...ask()])) {
      expect(levels).toEqual(['read committed']);
    }
    const { rows } = await database.callers.transaction((client) => client.query(isolation.text));
    expect(rows).toEqual([{ level: 'read committed' }]);
  });

  test('workers that enqueue, claim, settle and beat side by side meet no serialization failure', async () => {
    const other = new JobStore(new Database(resolveOptions(options)));
    const jobs = Array.from({ length: 200 }, (_, n) =>
      draft({ dedupeKey: n % 2 ? `key ${n % 50}` : null }),
    );
    const enqueued = await Promise.all([store.enqueueMany(jobs), other.enqueueMany(jobs)]);

    const settled = await Promise.all([store, other, store].map(workUntilEmpty));
    expect(settled.reduce((sum, count) => sum + count)).toBe(
      enqueued.flat().filter(({ inserted }) => inserted).length,
    );
    expect(await store.countJobs()).toEqual([{ status: 'failed', waitsFor: null, count: 0 }]);
    await store.dropOldDays(0);
    await other.database.close();
  });
});

/** Answers how many jobs it has settled. */
async function workUntilEmpty(store: JobStore): Promise<number> {
  const { engine } = store.database;
  const worker = await startWorker(engine);
  for (let settled = 0; ;) {
    const { jobs } = await exchange(engine, { worker, want: 10 });
    if (jobs.length === 0) return settled;
    await store.heartbeat(worker, 60_000, 10_000);
    let unsettled = jobs.map((job) => done(job));
    while (unsettled.length > 0) {
      const { answers } = await exchange(engine, { worker, settlements: unsettled });
      // A claim that read before ours was committed may hold a row's lock until it ends itself.
      expect(Object.values(answers).filter((answer) => answer !== 'busy')).toEqual([]);
      unsettled = unsettled.filter(({ id }) => answers[id] === 'busy');
    }
    settled += jobs.length;
  }
}
