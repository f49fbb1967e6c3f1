import { enqueueKeyed } from '../../lib/store/statements/enqueue-keyed.js';
import type { DedupeRule, EnqueuedRow, JobRow } from '../../lib/store/statements/enqueue-many.js';
import { deleteDedupeWindows } from '../../lib/store/statements/maintenance.js';
import {
  done,
  draft,
  exchange,
  openStore,
  startWorker,
  statusOf,
  untilWaiting,
  type Session,
  type TestStore,
} from '../support/store.js';

// Enqueues whose dedupe key does more than being unique: each race is forced statement by statement.

let t: TestStore;
let a: Session;
let b: Session;
let worker: string;

beforeAll(async () => {
  t = await openStore();
  [a, b] = await Promise.all([t.connect(), t.connect()]);
  worker = await startWorker(a);
});
afterAll(() => t.close());
beforeEach(() =>
  t.observer.query(
    'truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs, pgqueue.dedupe_windows',
  ),
);

const PLAIN: DedupeRule = { until: 'settled', onDuplicate: 'skip', ttlMs: null };
const REPLACE: DedupeRule = { ...PLAIN, onDuplicate: 'replace' };
const STARTED: DedupeRule = { ...PLAIN, until: 'started' };
const HOUR: DedupeRule = { ...PLAIN, ttlMs: 3_600_000 };

const keyed = (dedupeRule: DedupeRule, fields: Partial<JobRow> = {}): JobRow =>
  draft({ dedupeKey: 'key', dedupeRule, ...fields });

/** What happened, and to which id. */
async function enqueue(
  session: Session,
  rule: DedupeRule,
  fields: Partial<JobRow> = {},
): Promise<{ id: string | null; outcome: string }> {
  const [row] = await enqueueAll(session, [keyed(rule, fields)]);
  return row ?? { id: null, outcome: '' };
}

async function enqueueAll(
  session: Session,
  jobs: readonly JobRow[],
  allOrNothing = false,
): Promise<{ id: string | null; outcome: string }[]> {
  const [rows = []] = await session.run(enqueueKeyed, { jobs, allOrNothing });
  return rows.map(outcomeOf);
}

const outcomeOf = ({ id, inserted, outcome }: EnqueuedRow) => ({
  id,
  outcome: outcome ?? (inserted ? 'inserted' : 'duplicate'),
});

const payloads = async (): Promise<unknown[]> => {
  const rows = await t.observer.rows<{ payload: unknown }>(
    'select payload from pgqueue.jobs order by id',
  );
  return rows.map(({ payload }) => payload);
};

async function claim(session: Session = a, by = worker) {
  return (await exchange(session, { worker: by, want: 10 })).jobs;
}

describe('replace', () => {
  test('gives the job that waits the new payload, meta, priority and due time, and keeps its id', async () => {
    const first = await enqueue(a, REPLACE, { payload: '1', delayMs: 3_600_000, meta: '{"n":1}' });
    const second = await enqueue(b, REPLACE, { payload: '2', priority: -5, maxAttempts: 9 });
    expect([first.outcome, second]).toEqual(['inserted', { id: first.id, outcome: 'replaced' }]);
    const [row] = await t.observer.rows(
      'select id, payload, meta, priority, waits_for, max_attempts, run_at <= now() as due from pgqueue.jobs',
    );
    expect(row).toEqual({
      id: first.id,
      payload: 2,
      meta: null,
      priority: -5,
      waits_for: null,
      max_attempts: 5,
      due: true,
    });
    expect(await claim()).toMatchObject([{ id: first.id, payload: '2' }]);
  });

  test('without a due time leaves a job that is due its place', async () => {
    await enqueue(a, REPLACE);
    await t.observer.query(`update pgqueue.jobs set run_at = '2020-01-01'`);
    await enqueue(a, REPLACE, { payload: '2' });
    const year = await t.observer.value('select extract(year from run_at)::int from pgqueue.jobs');
    expect(year).toBe(2020);
  });

  test('can put the job off, and brings back one that nobody handled', async () => {
    const { id } = await enqueue(a, REPLACE);
    await enqueue(a, REPLACE, { delayMs: 3_600_000 });
    expect(await statusOf(a, String(id))).toBe('scheduled');
    await t.observer.query(`update pgqueue.jobs set waits_for = 'handler', run_at = now()`);
    await enqueue(a, REPLACE);
    expect(await statusOf(a, String(id))).toBe('queued');
  });

  test('leaves a job alone that runs: that is a duplicate', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await claim();
    expect(await enqueue(b, REPLACE, { payload: '2' })).toEqual({ id, outcome: 'duplicate' });
    expect(await payloads()).toEqual([1]);
  });

  test('replaces a job that waits for its retry, which then is due', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await claim();
    const retry = { id: String(id), leaseNo: 1, action: 'retry' as const, delayMs: 3_600_000 };
    await exchange(a, { worker, settlements: [retry] });
    expect(await enqueue(b, REPLACE, { payload: '2' })).toEqual({ id, outcome: 'replaced' });
    expect(await claim()).toMatchObject([{ id, payload: '2', attempt: 2 }]);
  });

  test('keeps the last of one list', async () => {
    const rows = await enqueueAll(a, [
      keyed(REPLACE, { payload: '1' }),
      draft({ payload: '"no key"' }),
      keyed(REPLACE, { payload: '2' }),
      keyed(REPLACE, { payload: 'null' }),
    ]);
    expect(rows.map(({ outcome }) => outcome)).toEqual([
      'inserted',
      'inserted',
      'replaced',
      'replaced',
    ]);
    expect(await payloads()).toEqual(expect.arrayContaining([null, 'no key']));
  });

  test('rings for a worker that sleeps, as an insert does', async () => {
    await enqueue(a, REPLACE, { delayMs: 3_600_000 });
    const heard: string[] = [];
    const listener = await t.connect();
    listener.client.on('notification', ({ payload = '' }) => heard.push(payload));
    await listener.query(`do $$ begin execute format('listen %I', pgqueue.doorbell()); end $$`);
    await enqueue(a, REPLACE);
    await listener.query(`select pg_advisory_lock_shared(pgqueue.waiting_key('default'))`);
    await enqueue(a, REPLACE);
    await a.query(`select pg_notify(pgqueue.doorbell(), 'end')`);
    await listener.query('select 1');
    expect(heard).toEqual(['default', 'end']);
    await listener.close();
  });
});

describe('replace against a claim', () => {
  test('waits for the claim, and is a duplicate of the job that runs then', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await a.begin();
    expect(await claim()).toHaveLength(1);
    const replaced = enqueue(b, REPLACE, { payload: '2' });
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await replaced).toEqual({ id, outcome: 'duplicate' });
    expect(await payloads()).toEqual([1]);
  });

  test('waits for the claim, and replaces when that rolls back', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await a.begin();
    await claim();
    const replaced = enqueue(b, REPLACE, { payload: '2' });
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await replaced).toEqual({ id, outcome: 'replaced' });
    expect(await claim()).toMatchObject([{ id, payload: '2' }]);
  });

  test('in an open transaction is passed over by the claim, and the next one takes the new payload', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await b.begin();
    await enqueue(b, REPLACE, { payload: '2' });
    await a.query(`set lock_timeout = '1ms'`);
    expect(await claim()).toEqual([]);
    await a.query('reset lock_timeout');
    await b.commit();
    expect(await claim()).toMatchObject([{ id, payload: '2' }]);
  });

  test('becomes a job of its own when the claim makes the holder give up its key', async () => {
    const rule: DedupeRule = { ...STARTED, onDuplicate: 'replace' };
    const { id } = await enqueue(a, rule, { payload: '1' });
    await a.begin();
    expect(await claim()).toHaveLength(1);
    const replaced = enqueue(b, rule, { payload: '2' });
    await untilWaiting(t.observer, b);
    await a.commit();
    const { id: next, outcome } = await replaced;
    expect(outcome).toBe('inserted');
    expect(next).not.toBe(id);
    expect(await payloads()).toEqual([1, 2]);
  });
});

describe('replace against others', () => {
  test('a settlement of the holder: it waits, and inserts', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    const jobs = await claim();
    await a.begin();
    await exchange(a, { worker, settlements: jobs.map((job) => done(job)) });
    const replaced = enqueue(b, REPLACE, { payload: '2' });
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await replaced).toEqual({
      id: expect.not.stringMatching(`^${id}$`),
      outcome: 'inserted',
    });
    expect(await payloads()).toEqual([2]);
  });

  test('a settlement that rolls back: it is a duplicate', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    const jobs = await claim();
    await a.begin();
    await exchange(a, { worker, settlements: jobs.map((job) => done(job)) });
    const replaced = enqueue(b, REPLACE, { payload: '2' });
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await replaced).toEqual({ id, outcome: 'duplicate' });
  });

  test('another replace: the second waits, and is the one that counts', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await a.begin();
    await enqueue(a, REPLACE, { payload: '2' });
    const second = enqueue(b, REPLACE, { payload: '3' });
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await second).toEqual({ id, outcome: 'replaced' });
    expect(await payloads()).toEqual([3]);
  });

  test('another replace that rolls back: the second replaces what was there before', async () => {
    const { id } = await enqueue(a, REPLACE, { payload: '1' });
    await a.begin();
    await enqueue(a, REPLACE, { payload: '2' });
    const second = enqueue(b, REPLACE, { payload: '3' });
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await second).toEqual({ id, outcome: 'replaced' });
    expect(await payloads()).toEqual([3]);
  });

  test('the first insert of the key: it waits, and replaces or inserts', async () => {
    for (const end of ['commit', 'rollback'] as const) {
      await t.observer.query('truncate pgqueue.jobs');
      await a.begin();
      const first = await enqueue(a, REPLACE, { payload: '1' });
      const second = enqueue(b, REPLACE, { payload: '2' });
      await untilWaiting(t.observer, b);
      await a[end]();
      const { id, outcome } = await second;
      expect(outcome).toBe(end === 'commit' ? 'replaced' : 'inserted');
      expect(id === first.id).toBe(end === 'commit');
      expect(await payloads()).toEqual([2]);
    }
  });

  test('two lists of keys in different order do not deadlock', async () => {
    const keys = ['a', 'b', 'c'].map((dedupeKey) => keyed(REPLACE, { dedupeKey }));
    await enqueueAll(a, keys);
    const c = await t.connect();
    await c.begin();
    await c.query(`select from pgqueue.jobs where dedupe_key = 'a' for update`);
    const up = enqueueAll(a, keys);
    await untilWaiting(t.observer, a);
    const down = enqueueAll(b, keys.toReversed());
    await untilWaiting(t.observer, b);
    await c.rollback();
    for (const rows of await Promise.all([up, down])) {
      expect(rows.map(({ outcome }) => outcome)).toEqual(['replaced', 'replaced', 'replaced']);
    }
    await c.close();
  });
});

describe('throw', () => {
  const THROW: DedupeRule = { ...PLAIN, onDuplicate: 'throw' };

  test('of one of a list takes back all of them, names the holder, and leaves the transaction usable', async () => {
    const { id } = await enqueue(b, PLAIN);
    await a.begin();
    await enqueue(a, PLAIN, { dedupeKey: 'before' });
    const rows = await enqueueAll(
      a,
      [keyed(PLAIN, { dedupeKey: 'a' }), keyed(THROW), keyed(PLAIN, { dedupeKey: 'z' })],
      true,
    );
    expect(rows.map(({ id, outcome }) => [id, outcome])).toEqual([
      [null, 'duplicate'],
      [id, 'refused'],
      [null, 'duplicate'],
    ]);
    await enqueue(a, PLAIN, { dedupeKey: 'after' });
    await a.commit();
    const keys = await t.observer.rows('select dedupe_key from pgqueue.jobs order by dedupe_key');
    expect(keys).toEqual(['after', 'before', 'key'].map((dedupe_key) => ({ dedupe_key })));
  });

  test('of one of several calls that travel together touches no other', async () => {
    const { id } = await enqueue(b, PLAIN);
    const rows = await enqueueAll(a, [keyed(THROW), keyed(PLAIN, { dedupeKey: 'z' })]);
    expect(rows[0]).toEqual({ id, outcome: 'duplicate' });
    expect(rows[1]?.outcome).toBe('inserted');
  });

  test('waits for a holder in an open transaction, and inserts when that rolls back', async () => {
    await a.begin();
    await enqueue(a, THROW);
    const second = enqueueAll(b, [keyed(THROW)], true);
    await untilWaiting(t.observer, b);
    await a.rollback();
    expect(await second).toMatchObject([{ outcome: 'inserted' }]);
  });
});

describe('a ttl', () => {
  const endWindow = () =>
    t.observer.query(
      `update pgqueue.dedupe_windows set until = clock_timestamp() - interval '1 s'`,
    );

  async function runAll(): Promise<void> {
    const settlements = (await claim()).map((job) => done(job));
    await exchange(a, { worker, settlements });
  }

  test('lets one job of a key in, even after it is settled, until its time is over', async () => {
    const { id, outcome } = await enqueue(a, HOUR);
    expect(outcome).toBe('inserted');
    expect(await enqueue(b, HOUR)).toEqual({ id, outcome: 'duplicate' });
    await runAll();
    expect(await enqueue(b, HOUR)).toEqual({ id, outcome: 'duplicate' });
    expect((await enqueue(b, HOUR, { dedupeKey: 'other' })).outcome).toBe('inserted');
    await endWindow();
    const next = await enqueue(b, HOUR);
    expect(next.outcome).toBe('inserted');
    expect(next.id).not.toBe(id);
  });

  test('that is over does not free the key of a job that is pending still', async () => {
    const { id } = await enqueue(a, HOUR);
    await endWindow();
    expect(await enqueue(b, HOUR)).toEqual({ id, outcome: 'duplicate' });
    await runAll();
    // What was refused has not begun a window of its own.
    expect((await enqueue(b, HOUR)).outcome).toBe('inserted');
  });

  test('binds those who give one: an enqueue without is a job of its own', async () => {
    await enqueue(a, HOUR);
    await runAll();
    expect((await enqueue(b, REPLACE)).outcome).toBe('inserted');
  });

  test('with replace changes the job while it waits, and is a duplicate after that', async () => {
    const rule: DedupeRule = { ...HOUR, onDuplicate: 'replace' };
    const { id } = await enqueue(a, rule, { payload: '1' });
    expect(await enqueue(a, rule, { payload: '2' })).toEqual({ id, outcome: 'replaced' });
    expect(await payloads()).toEqual([2]);
    await runAll();
    expect(await enqueue(a, rule, { payload: '3' })).toEqual({ id, outcome: 'duplicate' });
  });

  test.each(['commit', 'rollback'] as const)(
    'of two at once: the second waits, and after the %s of the first knows',
    async (end) => {
      await a.begin();
      const first = await enqueue(a, HOUR);
      const second = enqueue(b, HOUR);
      await untilWaiting(t.observer, b);
      await a[end]();
      const { id, outcome } = await second;
      expect(outcome).toBe(end === 'commit' ? 'duplicate' : 'inserted');
      expect(id === first.id).toBe(end === 'commit');
    },
  );

  test('of two at once where an old window is over: the second waits for the first', async () => {
    await enqueue(a, HOUR);
    await runAll();
    await endWindow();
    await a.begin();
    const first = await enqueue(a, HOUR);
    await runAll();
    const second = enqueue(b, HOUR);
    await untilWaiting(t.observer, b);
    await a.commit();
    // The first one's job is over before the second looks for it: its window is not.
    expect(await second).toEqual({ id: first.id, outcome: 'duplicate' });
  });

  test('of two at once where an old window is over, while somebody else has the key: the second waits for the window', async () => {
    await enqueue(a, HOUR);
    await runAll();
    await endWindow();
    const c = await t.connect();
    await c.begin();
    await enqueue(c, PLAIN);
    const first = enqueue(a, HOUR);
    await untilWaiting(t.observer, a);
    const second = enqueue(b, HOUR);
    await untilWaiting(t.observer, b);
    const blockers = await t.observer.value<number[]>('select pg_blocking_pids($1)', [b.pid]);
    expect(blockers).toEqual([a.pid]);
    await c.rollback();
    await c.close();
    expect((await first).outcome).toBe('inserted');
    expect((await second).outcome).toBe('duplicate');
  });

  test('against the housekeeping: a window that goes while an enqueue waits for it is made again', async () => {
    await enqueue(a, HOUR);
    await runAll();
    await endWindow();
    await a.begin();
    expect(await a.run(deleteDedupeWindows, 10)).toEqual([1]);
    const second = enqueue(b, HOUR);
    await untilWaiting(t.observer, b);
    await a.commit();
    const { id, outcome } = await second;
    expect(outcome).toBe('inserted');
    expect(await enqueue(a, HOUR)).toEqual({ id, outcome: 'duplicate' });
  });

  test('against the housekeeping: a window that has been seen and goes before it is taken is made again', async () => {
    await enqueue(a, HOUR);
    await runAll();
    await endWindow();
    await a.begin();
    await a.query('select from pgqueue.dedupe_windows for update');
    const second = enqueue(b, HOUR);
    await untilWaiting(t.observer, b);
    expect(await a.run(deleteDedupeWindows, 10)).toEqual([1]);
    await a.commit();
    const { id, outcome } = await second;
    expect(outcome).toBe('inserted');
    await runAll();
    expect(await enqueue(a, HOUR)).toEqual({ id, outcome: 'duplicate' });
  });

  test('is cleaned up when it is over, and passed over while somebody uses it', async () => {
    await enqueue(a, HOUR);
    await enqueue(a, HOUR, { dedupeKey: 'other' });
    expect(await a.run(deleteDedupeWindows, 10)).toEqual([0]);
    await endWindow();
    await b.begin();
    await b.query(`select from pgqueue.dedupe_windows where dedupe_key = 'other' for update`);
    expect(await a.run(deleteDedupeWindows, 10)).toEqual([1]);
    await b.rollback();
    expect(await a.run(deleteDedupeWindows, 10)).toEqual([1]);
  });
});

describe('until started', () => {
  const stateOf = (id: string | null) =>
    t.observer.rows('select status, dedupe_key from pgqueue.jobs where id = $1', [id]);

  test('the key is held while the job waits, and free in the moment in which it is claimed', async () => {
    const { id } = await enqueue(a, STARTED);
    expect(await enqueue(b, STARTED)).toEqual({ id, outcome: 'duplicate' });
    expect(await claim()).toMatchObject([{ id }]);
    expect(await stateOf(id)).toEqual([{ status: 'running', dedupe_key: null }]);
    const next = await enqueue(b, STARTED);
    expect(next.outcome).toBe('inserted');
    expect(await enqueue(a, STARTED)).toEqual({ id: next.id, outcome: 'duplicate' });
  });

  test('a key that is given up is not taken back for a retry, so that nothing is in the way of either', async () => {
    const { id } = await enqueue(a, STARTED);
    const [job] = await claim();
    const next = await enqueue(b, STARTED);
    const retry = { id: String(id), leaseNo: Number(job?.leaseNo), action: 'retry' as const };
    await exchange(a, { worker, settlements: [retry] });
    expect((await claim()).map((again) => again.id)).toEqual([id, next.id]);
  });

  test('the keys of others stay as they are in the same claim', async () => {
    await enqueue(a, STARTED);
    const { id } = await enqueue(a, PLAIN, { dedupeKey: 'plain' });
    expect(await claim()).toHaveLength(2);
    expect(await stateOf(id)).toEqual([{ status: 'running', dedupe_key: 'plain' }]);
  });

  test('can be said in SQL', async () => {
    await t.observer.query(
      `insert into pgqueue.jobs (kind, dedupe_key, dedupe_until) values ('k', 'key', 'started')`,
    );
    await claim();
    expect((await enqueue(b, PLAIN)).outcome).toBe('inserted');
  });
});
