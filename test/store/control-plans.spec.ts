import { cancelRequests, complete, writeProgress } from '../../lib/store/statements/control.js';
import { enqueueMany } from '../../lib/store/statements/enqueue-many.js';
import { cancel } from '../../lib/store/statements/jobs.js';
import { getJob } from '../../lib/store/statements/job-records.js';
import { accessOf, explainEverything, nodesOf, plansOf } from '../support/plans.js';
import { draft, exchange, openStore, startWorker, type TestStore } from '../support/store.js';

// What concerns a few jobs looks at these alone, however many there are and whatever the statistics say.

let t: TestStore;

beforeAll(async () => {
  t = await openStore({ ownDatabase: true });
});
afterAll(() => t.close());

const BY_ID = new Set([
  'Index Scan on jobs_pkey',
  'Index Only Scan on jobs_pkey',
  'Tid Scan',
  // The exchanges in between.
  'Index Scan on jobs_ready',
  'Index Only Scan on jobs_due',
  // By jobs_pkey, see below.
  'Bitmap Heap Scan',
]);

test('jobs are read by their ids, in a session that has its plans from an empty table too', async () => {
  const session = await t.connect();
  const worker = await startWorker(session);
  await explainEverything(session);

  /** All that people and handlers may do to a job, and how the table of jobs was read for it. */
  async function accesses(): Promise<string[]> {
    const plans = await plansOf(session, async () => {
      const jobs = [
        draft(),
        draft({ deadline: 3_600_000 }),
        draft({ deadline: 1, delayMs: 9_000 }),
      ];
      await session.run(enqueueMany, { jobs });
      const claimed = (await exchange(session, { worker, want: 2 })).jobs;
      const [first = '', second = ''] = claimed.map(({ id }) => id);
      const values = claimed.map(({ id, leaseNo }) => ({ id, leaseNo, value: '1' }));
      await session.run(writeProgress, { values, ended: [] });
      await session.run(writeProgress, { values: [], ended: values });
      const attempt = { worker, id: first, leaseNo: 1, keep: true, result: '1' };
      expect(await session.run(complete, attempt)).toEqual(['done']);
      expect(await session.run(cancel, second)).toEqual(['requested']);
      expect(await session.run(cancelRequests, [first, second])).toHaveLength(1);
      const settlements = [{ id: second, leaseNo: 1, action: 'release' as const }];
      await exchange(session, { worker, settlements });
      expect(await session.run(getJob, second)).toMatchObject([{ status: 'cancelled' }]);
      await session.query('update pgqueue.deadlines set look_at = now()');
      await session.query('select pgqueue.expire_v1(100)');
    });
    const nodes = plans.flatMap(({ root }) => nodesOf(root));
    const bitmaps = nodes.filter((node) => node['Node Type'] === 'Bitmap Index Scan');
    const others = bitmaps.map(accessOf).filter((access) => !access.endsWith('_pkey'));
    expect(others).toEqual([]);
    return nodes
      .filter((node) => node['Relation Name'] === 'jobs' && node['Node Type'] !== 'ModifyTable')
      .map(accessOf);
  }

  for (let turn = 0; turn < 8; turn += 1) await accesses();
  await t.observer.query(
    `insert into pgqueue.jobs (kind, priority) select 'other', 5 from generate_series(1, 20000)`,
  );
  expect((await accesses()).filter((access) => !BY_ID.has(access))).toEqual([]);
  await t.observer.query('analyze pgqueue.jobs');
  const found = await accesses();
  expect(found.filter((access) => !BY_ID.has(access))).toEqual([]);
  expect(found.length).toBeGreaterThan(15);
});
