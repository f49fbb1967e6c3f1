import { exchange, openStore, startWorker, type TestStore } from '../support/store.js';

// B35: a planner that re-runs the locking subquery hands out more rows than asked.

const JOBS = 1_500;
const CLAIMS = 40;

let t: TestStore;

beforeAll(async () => {
  t = await openStore();
  // No statistics and no vacuum: the planner guesses.
  await t.observer.query('alter table pgqueue.jobs set (autovacuum_enabled = off)');
});
afterAll(() => t.close());

// Without hashing and sorting a subquery can't be made unique, so a nested loop runs it for every row.
const NESTED_LOOP = ['hashjoin', 'mergejoin', 'hashagg', 'sort', 'material'];
const PLANNERS: readonly (readonly string[])[] = [
  [],
  NESTED_LOOP,
  [...NESTED_LOOP, 'tidscan'],
  ['nestloop'],
  ['tidscan', 'indexscan', 'indexonlyscan'],
];

test.each(PLANNERS.map((off) => ({ off, name: off.join(', ') || 'nothing' })))(
  'B35: an exchange never returns or leases more than asked, with $name switched off',
  async ({ off }) => {
    await t.observer.query('truncate pgqueue.jobs');
    await t.observer.query(
      `insert into pgqueue.jobs (kind) select 'k' from generate_series(1, $1)`,
      [JOBS],
    );
    const sessions = await Promise.all(Array.from({ length: 8 }, () => t.connect()));
    const taken: string[] = [];
    await Promise.all(
      sessions.map(async (session, index) => {
        for (const setting of off) await session.query(`set enable_${setting} = off`);
        const worker = await startWorker(session);
        const want = index % 2 === 0 ? 1 : 5;
        for (let held = 0, turn = 0; turn < CLAIMS; turn += 1) {
          const { jobs } = await exchange(session, { worker, want });
          expect(jobs.length).toBeLessThanOrEqual(want);
          held += jobs.length;
          taken.push(...jobs.map(({ id }) => id));
          if (turn % 20 !== 0) continue;
          const leased = await session.value<string>(
            'select count(*) from pgqueue.jobs where locked_by = $1',
            [worker],
          );
          expect(Number(leased)).toBe(held);
        }
      }),
    );
    expect(new Set(taken).size).toBe(taken.length);
    const running = await t.observer.value<string>(
      `select count(*) from pgqueue.jobs where status = 'running'`,
    );
    expect(Number(running)).toBe(taken.length);
    expect(taken.length).toBeGreaterThan(8 * CLAIMS);
    await Promise.all(sessions.map((session) => session.close()));
  },
);
