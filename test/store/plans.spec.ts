import { startPostgres, type Postgres } from '../../scripts/postgres.mjs';
import type { ClaimedJob, Settlement } from '../../lib/store/statements/exchange.js';
import { cancel } from '../../lib/store/statements/jobs.js';
import { rescue } from '../../lib/store/statements/workers.js';
import {
  accessOf,
  explainEverything,
  feeding,
  nodesOf,
  type PlanNode,
  plansOf,
  rowsTouched,
  type RunPlan,
} from '../support/plans.js';
import {
  done,
  exchange,
  insertJobs,
  openStore,
  startWorker,
  type Session,
  type TestStore,
} from '../support/store.js';

// Every statement of an exchange is pinned to its index, whatever the tables hold and the statistics say.

const MILLION = 1_000_000;
const BATCH = 20;

const SEEN_ACCESS = [
  'Index Scan on jobs_ready',
  'Index Scan on jobs_pkey',
  'Index Scan on jobs_due',
  'Tid Scan',
] as const;
const GOOD_ACCESS = new Set<string>([
  ...SEEN_ACCESS,
  'Index Only Scan on jobs_due',
  'Index Only Scan on jobs_pkey',
]);

describe.each([14, 18] as const)('on PostgreSQL %i', (major) => {
  let postgres: Postgres;
  let t: TestStore;
  let old: Session;

  beforeAll(async () => {
    postgres = await startPostgres({ major, settings: ['max_wal_size=4GB', 'autovacuum=off'] });
    t = await openStore({ url: postgres.url });
    old = await t.connect();
    await planElsewhere(old);
    // A million rows are loaded faster without them.
    await t.observer.query('alter table pgqueue.jobs disable trigger user');
  }, 120_000);
  afterAll(async () => {
    await t.close();
    await postgres.stop();
  });

  /** Exchanges that claim, settle in every way, and promote what is due. */
  async function exchangePlans(session: Session): Promise<RunPlan[]> {
    const worker = await startWorker(session);
    await explainEverything(session);
    const plans: RunPlan[] = [];
    let jobs: readonly ClaimedJob[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      await insertJobs(t.observer, BATCH);
      await t.observer.query(
        `insert into pgqueue.jobs (kind, waits_for, run_at)
         select 'k', 'time', now() - interval '1 min' from generate_series(1, 5)`,
      );
      const settlements = jobs.map(settlementOf);
      const collected = await plansOf(session, async () => {
        const answer = await exchange(session, { worker, settlements, want: BATCH });
        expect(answer.answers).toEqual({});
        ({ jobs } = answer);
      });
      expect(jobs).toHaveLength(BATCH);
      plans.push(...collected);
    }
    // A resend, whose rows are gone.
    plans.push(
      ...(await plansOf(session, async () => {
        const settlements = jobs.map(settlementOf);
        await exchange(session, { worker, settlements });
        const { answers } = await exchange(session, { worker, settlements });
        expect(new Set(Object.values(answers))).toEqual(new Set(['already']));
      })),
    );
    return plans;
  }

  /** What the same functions do outside an exchange must not leave plans behind for it. */
  async function planElsewhere(session: Session): Promise<void> {
    for (let i = 0; i < 8; i += 1) {
      const [id = ''] = await insertJobs(session, 1);
      await session.run(cancel, id);
      await session.query(
        `insert into pgqueue.jobs (kind, locked_by, attempts, max_attempts) values ('k', gen_random_uuid(), 1, 1)`,
      );
      await session.run(rescue, { strays: true, limit: 10 });
    }
  }

  /** In a new session, and in one that has its plans from when the tables were empty. */
  async function expectPinned(): Promise<void> {
    const fresh = await t.connect();
    for (const session of [fresh, old]) {
      const plans = await exchangePlans(session);
      expect([...new Set(plans.flatMap(faultsOf))]).toEqual([]);
      // All of them were seen: the claim, promotion, settlements, and what is done with locked rows.
      const accesses = plans.flatMap(({ root }) => nodesOf(root).filter(readsJobs).map(accessOf));
      expect([...new Set(accesses)]).toEqual(expect.arrayContaining([...SEEN_ACCESS]));
    }
    await fresh.close();
  }

  test('with empty tables and no statistics', async () => {
    await expectPinned();
  });

  test('with 1,000,000 rows in the history and 100,000 future jobs, without and with statistics', async () => {
    await t.observer.query(
      `insert into pgqueue.done_jobs (id, queue, kind, payload, status, priority, run_at, attempts,
                                      max_attempts, lease_no, created_at, finished_at)
       select -i, 'default', 'k', '{}', 'done', 0, now(), 1, 5, 1, now(), now()
         from generate_series(1, ${MILLION}) i`,
    );
    await t.observer.query(
      `insert into pgqueue.jobs (kind, waits_for, run_at)
       select 'k', 'time', now() + interval '1 day' + i * interval '1 s' from generate_series(1, 100000) i`,
    );
    await expectPinned();
    await t.observer.query('analyze pgqueue.jobs, pgqueue.done_jobs');
    await expectPinned();
  }, 120_000);

  test('with 1,000,000 jobs that are ready besides, with stale and with fresh statistics', async () => {
    await t.observer.query(
      `insert into pgqueue.jobs (kind, priority) select 'k', i % 3 from generate_series(1, ${MILLION}) i`,
    );
    await expectPinned();
    await t.observer.query('analyze pgqueue.jobs');
    await expectPinned();
  }, 120_000);

  test('with tables that are empty again, while the statistics still tell of a million', async () => {
    await t.observer.query('truncate pgqueue.jobs');
    await expectPinned();
  });
});

function readsJobs(node: PlanNode): boolean {
  return node['Relation Name'] === 'jobs' && node['Node Type'] !== 'ModifyTable';
}

/** What is wrong with a plan, each with the statement it is of. */
function faultsOf({ text, root }: RunPlan): string[] {
  const nodes = nodesOf(root);
  const ofJobs = nodes.filter(readsJobs);
  const faults = [
    ...ofJobs.map(accessOf).filter((access) => !GOOD_ACCESS.has(access)),
    ...ofJobs
      .map(rowsTouched)
      .filter((rows) => rows > 4 * BATCH)
      .map((rows) => `${rows} rows of jobs`),
    ...nodes
      .filter((node) => /Join|Nested Loop/.test(node['Node Type']) && feeding(node).some(readsJobs))
      .map((node) => `${node['Node Type']} of jobs`),
    ...nodes.map(accessOf).filter((access) => /Bitmap|Seq Scan/.test(access)),
  ];
  return faults.map((fault) => `${fault}: ${text.replaceAll(/\s+/g, ' ')}`);
}

/** One in each way, most of them done. */
function settlementOf({ id, leaseNo }: ClaimedJob, index: number): Settlement {
  const error = { name: 'Error', message: 'm' };
  if (index === 0) return { id, leaseNo, action: 'retry', delayMs: 3_600_000, error };
  if (index === 1) return { id, leaseNo, action: 'fail', error };
  if (index === 2) return { id, leaseNo, action: 'cancel', error };
  if (index === 3) return { id, leaseNo, action: 'release', delayMs: 3_600_000 };
  return done({ id, leaseNo }, { keep: index !== 4 });
}
