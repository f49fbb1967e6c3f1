import type { ClaimedJob, Look, Position } from '../../lib/store/statements/exchange.js';
import { explainEverything, nodesOf, plansOf, type PlanNode } from '../support/plans.js';
import {
  done,
  exchange,
  insertJobs,
  openStore,
  startWorker,
  type Exchange,
  type Exchanged,
  type Session,
  type TestStore,
} from '../support/store.js';

// Where a claim begins: after a position it takes what is behind it in the order, and looks at more urgent
// priorities from their start. What became claimable before the position is found by a full look.

let t: TestStore;
let a: Session;
let b: Session;
let worker: string;

beforeAll(async () => {
  t = await openStore({ ownDatabase: true });
  [a, b] = await Promise.all([t.connect(), t.connect()]);
});
afterAll(() => t.close());
beforeEach(async () => {
  await t.observer.query('truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs');
  worker = await startWorker(a, { kinds: ['k', 'other'] });
});

const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

/** A job that became due that many seconds ago; negative = in the future. */
async function insertDue(
  session: Session,
  ago: number,
  { priority = 0, scheduled = false, kind = 'k' } = {},
): Promise<string> {
  return session.value(
    `insert into pgqueue.jobs (kind, priority, run_at, waits_for)
     values ($1, $2, now() - $3 * interval '1 s', $4) returning id`,
    [kind, priority, ago, scheduled ? 'time' : null],
  );
}

/** Claims from the start. Answers its jobs, and the position after the last one of each look. */
async function lookFully(
  want: number,
  request: Partial<Exchange> = {},
): Promise<Exchanged & { readonly position: Position; readonly dueAfter: string }> {
  const answer = await exchange(a, { worker, want, ...request });
  return {
    ...answer,
    position: answer.progress?.last.at(-1)?.position as Position,
    dueAfter: String(answer.progress?.dueAfter),
  };
}

/** The looks of a worker that has come to a position: more urgent priorities, and what is behind it. */
function looksAfter(after: Position, want: number, more: Partial<Look> = {}): Look[] {
  const look = { queue: 'default', want, lane: 0, ...more };
  return [
    { ...look, upto: after.priority - 1 },
    { ...look, after },
  ];
}

function claimAfter(
  position: Position,
  want: number,
  request: Partial<Exchange> = {},
): Promise<Exchanged> {
  return exchange(a, { worker, looks: looksAfter(position, want), ...request });
}

describe('a claim that begins after a position', () => {
  test('takes what is behind it in order, and tells the position of the last', async () => {
    await insertJobs(t.observer, 3);
    const { position, jobs } = await lookFully(3);
    expect(position).toMatchObject({ priority: 0, id: jobs[2]?.id });
    const behind = await insertJobs(t.observer, 5);
    const lessUrgent = await insertDue(t.observer, 60, { priority: 1 });

    const next = await claimAfter(position, 4);
    expect(ids(next.jobs)).toEqual(behind.slice(0, 4));
    expect(next.progress?.last).toEqual([
      { look: 1, position: expect.objectContaining({ priority: 0, id: behind[3] }) as Position },
    ]);
    const last = await claimAfter(next.progress?.last[0]?.position as Position, 4);
    expect(ids(last.jobs)).toEqual([behind[4], lessUrgent]);
    expect(last.progress?.last).toMatchObject([{ position: { priority: 1, id: lessUrgent } }]);
  });

  test('takes nothing that is before it, and is alive without a job', async () => {
    const [before] = [await insertDue(t.observer, 60), await insertDue(t.observer, 30)];
    const { jobs, position } = await lookFully(2);
    await t.observer.query('update pgqueue.jobs set locked_by = null where id = $1', [before]);
    await insertDue(t.observer, 45);

    const next = await claimAfter(position, 5);
    expect(next).toMatchObject({ worker: 'alive', jobs: [], progress: { last: [] } });
    expect((await lookFully(5)).jobs).toHaveLength(2);
    expect(jobs).toHaveLength(2);
  });

  test('tells jobs apart that became due at the same microsecond', async () => {
    const all = await insertJobs(t.observer, 10);
    let { jobs, position } = await lookFully(3);
    const taken = ids(jobs);
    while (jobs.length > 0) {
      const answer = await claimAfter(position, 3);
      ({ jobs } = answer);
      taken.push(...ids(jobs));
      position = answer.progress?.last.at(-1)?.position ?? position;
    }
    expect(taken).toEqual(all);
  });

  test('takes a more urgent job that came later first', async () => {
    await insertJobs(t.observer, 2);
    const { position } = await lookFully(2);
    const usual = await insertJobs(t.observer, 2);
    const urgent = await insertDue(t.observer, 0, { priority: -5 });
    const lessUrgent = await insertDue(t.observer, 60, { priority: 5 });

    const { jobs, progress } = await claimAfter(position, 10);
    expect(ids(jobs)).toEqual([urgent, ...usual, lessUrgent]);
    expect(progress?.last.map(({ look }) => look)).toEqual([0, 1]);
  });

  test('goes on in each of several priorities', async () => {
    const first = await insertDue(t.observer, 10, { priority: 1 });
    const second = await insertDue(t.observer, 10, { priority: 7 });
    const places: Position[] = [];
    for (const _ of [first, second]) places.push((await lookFully(1)).position);
    const before = [
      await insertDue(t.observer, 20, { priority: 1 }),
      await insertDue(t.observer, 20, { priority: 7 }),
    ];
    const behind = [
      await insertDue(t.observer, 5, { priority: 1 }),
      await insertDue(t.observer, 5, { priority: 4 }),
      await insertDue(t.observer, 5, { priority: 7 }),
      await insertDue(t.observer, 20, { priority: 9 }),
    ];
    const look = { queue: 'default', want: 10, lane: 0 };
    const [one, seven] = places as [Position, Position];
    const { jobs } = await exchange(a, {
      worker,
      looks: [
        { ...look, upto: 0 },
        { ...look, after: one, upto: 6 },
        { ...look, after: seven },
      ],
    });
    expect(ids(jobs)).toEqual(behind);
    expect(ids((await lookFully(10)).jobs)).toEqual(before);
  });

  test('misses a job whose transaction was late with its commit, and a full look finds it', async () => {
    await b.begin();
    const [late] = await insertJobs(b, 1);
    await insertJobs(t.observer, 2);
    const { position } = await lookFully(2);
    await b.commit();

    expect((await claimAfter(position, 5)).jobs).toEqual([]);
    expect(ids((await lookFully(5)).jobs)).toEqual([late]);
  });
});

describe('what becomes claimable in the same exchange is found although its place is before the position:', () => {
  let first: ClaimedJob;
  let position: Position;
  beforeEach(async () => {
    await insertDue(t.observer, 60);
    await insertDue(t.observer, 30);
    const answer = await lookFully(2);
    [first] = answer.jobs as [ClaimedJob, ClaimedJob];
    ({ position } = answer);
  });

  test.each<['release' | 'retry', number | undefined, number]>([
    ['release', undefined, 1],
    ['release', 0, 1],
    ['retry', undefined, 2],
    ['retry', 0, 2],
  ])('a job handed in for %s with a delay of %s', async (action, delayMs, attempt) => {
    const settlements = [
      { id: first.id, leaseNo: first.leaseNo, action, ...(delayMs !== undefined && { delayMs }) },
    ];
    const { dueAfter } = await lookFully(1);
    const { jobs, answers } = await claimAfter(position, 5, { settlements, dueAfter });
    expect(answers).toEqual({});
    expect(jobs).toMatchObject([{ id: first.id, attempt, leaseNo: 2 }]);
  });

  test('one in a less urgent priority than the position', async () => {
    const id = await insertDue(t.observer, 90, { priority: 3 });
    const { jobs, position: behind } = await lookFully(1);
    expect(ids(jobs)).toEqual([id]);
    const settlements = [{ id, leaseNo: 1, action: 'release' as const }];
    const look = { queue: 'default', want: 5, lane: 0 };
    const looks: Look[] = [
      { ...look, upto: -1 },
      { ...look, after: position, upto: 2 },
      { ...look, after: behind },
    ];
    expect(ids((await exchange(a, { worker, looks, settlements })).jobs)).toEqual([id]);
  });

  test('one that the exchange promotes', async () => {
    const { dueAfter } = await lookFully(1);
    const id = await insertDue(t.observer, 45, { scheduled: true });
    expect((await claimAfter(position, 5, { dueAfter })).jobs).toEqual([]);
    const { jobs } = await claimAfter(position, 5);
    expect(ids(jobs)).toEqual([id]);
  });

  test('several of both, in their order', async () => {
    const promoted = [
      await insertDue(t.observer, 70, { scheduled: true }),
      await insertDue(t.observer, 40, { scheduled: true }),
    ];
    const [usual] = await insertJobs(t.observer, 1);
    const settlements = [{ id: first.id, leaseNo: first.leaseNo, action: 'release' as const }];
    const { jobs } = await claimAfter(position, 10, { settlements });
    expect(ids(jobs)).toEqual([promoted[0], first.id, promoted[1], usual]);
  });

  test('and what is before it is not taken for that', async () => {
    const before = await insertDue(t.observer, 80);
    const settlements = [{ id: first.id, leaseNo: first.leaseNo, action: 'release' as const }];
    expect(ids((await claimAfter(position, 10, { settlements })).jobs)).toEqual([first.id]);
    expect(ids((await lookFully(10)).jobs)).toEqual([before]);
  });
});

describe('where scheduled jobs are looked at', () => {
  test('is after those that were promoted: what comes is found, what is before is not', async () => {
    const first = await insertDue(t.observer, 60, { scheduled: true });
    const { jobs, dueAfter } = await lookFully(5);
    expect(ids(jobs)).toEqual([first]);
    const behind = await t.observer.value<string>(
      `insert into pgqueue.jobs (kind, waits_for, run_at) values ('k', 'time', clock_timestamp()) returning id`,
    );
    const before = await insertDue(t.observer, 90, { scheduled: true });

    const next = await lookFully(5, { dueAfter });
    expect(ids(next.jobs)).toEqual([behind]);
    expect(ids((await lookFully(5)).jobs)).toEqual([before]);
  });

  test('skips those that were promoted and not claimed', async () => {
    await insertDue(t.observer, 60, { scheduled: true });
    await insertDue(t.observer, 50, { scheduled: true });
    const { jobs, dueAfter } = await lookFully(1);
    expect(jobs).toHaveLength(1);
    const scheduled = await t.observer.value(
      `select count(*)::int from pgqueue.jobs where waits_for = 'time'`,
    );
    expect(scheduled).toBe(0);
    expect((await lookFully(5, { dueAfter })).jobs).toHaveLength(1);
  });

  test('tells when the next one will be, from there as from the start', async () => {
    const future = await insertDue(t.observer, -3_600);
    const { dueIn, dueAfter } = await lookFully(1);
    expect(dueIn).toBeGreaterThan(3_590_000);
    expect((await lookFully(1, { dueAfter })).dueIn).toBeGreaterThan(3_590_000);
    await t.observer.query(
      'update pgqueue.jobs set run_at = clock_timestamp() where id = $1 returning id',
      [future],
    );
    expect(ids((await lookFully(1, { dueAfter })).jobs)).toEqual([future]);
  });

  test('stays before a job that the same exchange gives a time', async () => {
    await insertJobs(t.observer, 1);
    const { jobs, dueAfter } = await lookFully(1);
    const [{ id, leaseNo }] = jobs as [ClaimedJob];
    const runAt = new Date(Date.now() - 3_600_000);
    const settlements = [{ id, leaseNo, action: 'retry' as const, runAt }];
    expect(ids((await lookFully(1, { dueAfter, settlements })).jobs)).toEqual([id]);
  });

  test('goes on where more are due than one exchange promotes', async () => {
    await t.observer.query(
      `insert into pgqueue.jobs (kind, waits_for, run_at)
       select 'k', 'time', now() - i * interval '1 ms' from generate_series(1, 1500) i`,
    );
    const first = await lookFully(1);
    expect(first.dueIn).toBe(0);
    const second = await lookFully(1, { dueAfter: first.dueAfter });
    expect(second.dueIn).toBeUndefined();
    const left = await t.observer.value(
      `select count(*)::int from pgqueue.jobs where waits_for = 'time'`,
    );
    expect(left).toBe(0);
  });
});

describe('several looks', () => {
  test('of one lane get no more than it wants between them', async () => {
    await insertJobs(t.observer, 1);
    const { position } = await lookFully(1);
    const urgent = [
      await insertDue(t.observer, 0, { priority: -2 }),
      await insertDue(t.observer, 0, { priority: -1 }),
    ];
    const usual = await insertJobs(t.observer, 5);
    const { jobs } = await claimAfter(position, 4);
    expect(ids(jobs)).toEqual([...urgent, ...usual.slice(0, 2)]);
  });

  test('of which the first gets all that the lane wants leave the rest to the next lane', async () => {
    await insertJobs(t.observer, 1);
    const { position } = await lookFully(1);
    await t.observer.query(
      `insert into pgqueue.jobs (kind, priority, queue)
       select 'k', -1, q from unnest(array['default', 'mail']) q, generate_series(1, 3)`,
    );
    const looks = [
      ...looksAfter(position, 2),
      ...looksAfter(position, 2, { lane: 1, queue: 'mail' }),
    ];
    const { jobs } = await exchange(a, { worker, looks });
    expect(jobs.map(({ queue }) => queue).toSorted()).toEqual([
      'default',
      'default',
      'mail',
      'mail',
    ]);
  });

  describe('of lanes with the same slots', () => {
    const slots = { slots: 'default', free: 4 };
    const ofKind = (kind: string, lane: number, want: number): Look => ({
      queue: 'default',
      only: [kind],
      want,
      lane,
      ...slots,
    });
    const kindsTaken = async (looks: readonly Look[]): Promise<Record<string, number>> => {
      const { jobs } = await exchange(a, { worker, looks });
      const counts: Record<string, number> = {};
      for (const { queue, kind } of jobs) {
        counts[`${queue}/${kind}`] = (counts[`${queue}/${kind}`] ?? 0) + 1;
      }
      return counts;
    };
    const fill = () =>
      t.observer.query(
        `insert into pgqueue.jobs (kind, queue)
         select k, q from unnest(array['k', 'other']) k, unnest(array['default', 'mail']) q,
                          generate_series(1, 5)`,
      );

    test('get no more than is free, the first one first', async () => {
      await fill();
      const taken = await kindsTaken([ofKind('other', 0, 3), ofKind('k', 1, 4)]);
      expect(taken).toEqual({ 'default/other': 3, 'default/k': 1 });
    });

    test('leave what one does not find to the other', async () => {
      await fill();
      await t.observer.query(`delete from pgqueue.jobs where kind = 'other'`);
      const taken = await kindsTaken([ofKind('other', 0, 3), ofKind('k', 1, 4)]);
      expect(taken).toEqual({ 'default/k': 4 });
    });

    test('take nothing from the slots of other lanes', async () => {
      await fill();
      const mail = { queue: 'mail', want: 3, slots: 'mail', free: 3 };
      const taken = await kindsTaken([
        ofKind('other', 0, 3),
        ofKind('k', 1, 4),
        { ...mail, lane: 2, except: ['k'] },
        { queue: 'mail', only: ['k'], want: 2, lane: 3 },
      ]);
      expect(taken).toEqual({
        'default/other': 3,
        'default/k': 1,
        'mail/other': 3,
        'mail/k': 2,
      });
    });

    test('get no more than is free in all stretches of all lanes', async () => {
      await fill();
      const position: Position = { priority: 0, runAt: '2001-01-01 00:00:00+00', id: '0' };
      await t.observer.query(
        `insert into pgqueue.jobs (kind, priority) values ('other', -1), ('k', -1), ('k', -1)`,
      );
      const taken = await kindsTaken([
        ...looksAfter(position, 2, { ...slots, lane: 0, only: ['other'] }),
        ...looksAfter(position, 4, { ...slots, lane: 1, only: ['k'] }),
      ]);
      expect(taken).toEqual({ 'default/other': 2, 'default/k': 2 });
    });
  });
});

describe('while somebody holds an old snapshot', () => {
  const TAKEN = 20_000;
  const WANT = 10;

  /** Pages that the statements of an exchange touched to find jobs; what it does is rolled back. */
  async function pagesTouched(session: Session, request: Exchange): Promise<number> {
    await session.begin();
    const plans = await plansOf(session, async () => {
      expect((await exchange(session, request)).jobs).toHaveLength(WANT);
    });
    await session.rollback();
    const looks = plans.filter(({ root }) =>
      nodesOf(root).some((node) => node['Index Name'] === 'jobs_ready'),
    );
    expect(looks.length).toBeGreaterThan(0);
    return looks.reduce((sum, { root }) => sum + pagesOf(root), 0);
  }

  test('a claim from a position touches at most a tenth of the pages of a full look', async () => {
    await b.query('begin isolation level repeatable read');
    await b.query('select count(*) from pgqueue.jobs');
    try {
      await insertJobs(t.observer, TAKEN);
      const { jobs, position } = await lookFully(TAKEN);
      expect(jobs).toHaveLength(TAKEN);
      await exchange(a, { worker, settlements: jobs.map((job) => done(job, { keep: false })) });
      const behind = await insertJobs(t.observer, 2 * WANT);
      expect(behind).toHaveLength(await t.observer.value('select count(*)::int from pgqueue.jobs'));

      const session = await t.connect();
      await explainEverything(session);
      await session.query(`select set_config('auto_explain.log_buffers', 'on', false)`);
      const resumed = await pagesTouched(session, { worker, looks: looksAfter(position, WANT) });
      const full = await pagesTouched(session, { worker, want: WANT });
      // Full: the entries of 20,000 dead rows, and the rows.
      expect(full).toBeGreaterThan(TAKEN / 100);
      expect(resumed).toBeLessThanOrEqual(full / 10);
      await session.close();
    } finally {
      await b.rollback();
    }
  });
});

/** Pages that a node and all below it read, as auto_explain counts them with `log_buffers`. */
function pagesOf(node: PlanNode): number {
  const { 'Shared Hit Blocks': hit = 0, 'Shared Read Blocks': read = 0 } = node as PlanNode & {
    readonly 'Shared Hit Blocks'?: number;
    readonly 'Shared Read Blocks'?: number;
  };
  return hit + read;
}
