import { eventually } from '../support/eventually.js';
import { exchange, insertJobs, openStore, startWorker, type TestStore } from '../support/store.js';

// A claim is a HOT update: it leaves no dead index entry and writes the heap alone.

let t: TestStore;

beforeAll(async () => {
  t = await openStore();
});
afterAll(() => t.close());

test('claims of several hundred jobs are HOT updates, every one', async () => {
  const session = await t.connect();
  const worker = await startWorker(session);
  await insertJobs(session, 400);
  for (let claimed = 0; claimed < 400;) {
    claimed += (await exchange(session, { worker, want: 50 })).jobs.length;
  }
  // The counters of a session are sent when it ends, if not before.
  await session.close();
  const counters = await eventually(async () => {
    const [row] = await t.observer.rows<{ updated: string; hot: string }>(`
      select n_tup_upd as updated, n_tup_hot_upd as hot from pg_stat_user_tables
       where relid = 'pgqueue.jobs'::regclass`);
    expect(Number(row?.updated)).toBeGreaterThanOrEqual(400);
    return row;
  });
  expect(counters).toEqual({ updated: '400', hot: '400' });
});

test('no index, and no predicate of one, names a column that a claim changes', async () => {
  const named = await t.observer.rows<{ index: string; column: string }>(`
    select i.indexrelid::regclass::text as index, a.attname as "column"
      from pg_index i
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum > 0
     where i.indrelid = 'pgqueue.jobs'::regclass
       and (a.attnum = any (i.indkey)
            or exists (select from pg_depend d
                        where d.objid = i.indexrelid and d.refobjid = i.indrelid
                          and d.classid = 'pg_class'::regclass and d.refobjsubid = a.attnum))`);
  const columns = new Set(named.map(({ column }) => column));
  // The query does see columns of keys and of predicates.
  expect([...columns]).toEqual(expect.arrayContaining(['id', 'run_at', 'waits_for', 'dedupe_key']));
  for (const changed of ['locked_by', 'attempts', 'lease_no', 'status']) {
    expect(columns).not.toContain(changed);
  }
});

test('pages keep room for the next version of their rows', async () => {
  const options = await t.observer.value<string[]>(
    `select reloptions from pg_class where oid = 'pgqueue.jobs'::regclass`,
  );
  expect(options).toContain('fillfactor=45');
});
