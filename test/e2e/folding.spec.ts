import type { EnqueueResult } from 'nestjs-pg-queue';
import type { PoolClient } from 'pg';
import { forSchema } from '../../lib/store/sql.js';
import { endApps, pool, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

// Enqueues that are made at the same time share a transaction: `xmin` of a row says which one.

/** The commits of this test wait for whoever holds this advisory lock. */
const COMMITS = 271_828;

let app: TestApp;
let holder: PoolClient;
beforeAll(async () => {
  app = await startWith([], { worker: false });
  await app.sql(`
    alter table pgqueue.jobs add constraint not_refused check (kind <> 'refused');
    create function pgqueue.commit_later() returns trigger language plpgsql as $fn$
    begin
      perform pg_advisory_xact_lock_shared(${COMMITS});
      return null;
    end $fn$;
    create constraint trigger commit_later after insert on pgqueue.jobs deferrable initially deferred
      for each row when (new.kind = 'late') execute function pgqueue.commit_later()`);
});
beforeEach(async () => {
  holder = await pool.connect();
});
afterEach(async () => {
  await holder.query('rollback; select pg_advisory_unlock_all()');
  holder.release();
  await app.sql('delete from pgqueue.jobs');
});
afterAll(endApps);

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** How many transactions the jobs came in. */
async function transactions(results: readonly EnqueueResult[]): Promise<number> {
  const [row] = await app.sql(
    `select count(*)::int as rows, count(distinct xmin::text)::int as transactions
       from pgqueue.jobs where id = any ($1)`,
    [results.map(({ id }) => id)],
  );
  expect(row.rows).toBe(results.length);
  return row.transactions as number;
}

/** Resolves when as many enqueues as that wait for somebody's lock. */
function untilBlocked(count: number): Promise<void> {
  return eventually(async () => {
    const [row] = await app.sql(
      `select count(*)::int as n from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%' || $1 || '%enqueue_many%'`,
      [app.schema],
    );
    expect(row.n).toBe(count);
  });
}

/** What a call has come to so far. */
function watch(call: Promise<EnqueueResult>): { readonly result: EnqueueResult | undefined } {
  const watched: { result: EnqueueResult | undefined } = { result: undefined };
  call.then(
    (result) => (watched.result = result),
    () => {},
  );
  return watched;
}

describe('enqueues that are made at the same time', () => {
  it('of one turn are one transaction, and each hears the id of its own job', async () => {
    const results = await Promise.all(numbers(200).map((n) => app.queue.enqueue('k', { n })));
    expect(await transactions(results)).toBe(1);
    const rows = await app.sql(
      `select id, payload from pgqueue.jobs order by (payload ->> 'n')::int`,
    );
    expect(rows).toEqual(results.map(({ id }, n) => ({ id, payload: { n } })));
    expect(new Set(results.map(({ outcome }) => outcome))).toEqual(new Set(['inserted']));
  });

  it('by 20 callers, one after the other each, are few transactions', async () => {
    const callers = numbers(20).map(async () => {
      const results: EnqueueResult[] = [];
      for (const n of numbers(10)) results.push(await app.queue.enqueue('k', { n }));
      return results;
    });
    const results = (await Promise.all(callers)).flat();
    // Ten rounds of twenty that go together, and some that just missed the others.
    expect(await transactions(results)).toBeLessThanOrEqual(20);
  });

  it('are answered after their commit: none before, all visible then', async () => {
    await holder.query('select pg_advisory_lock($1)', [COMMITS]);
    const calls = numbers(50).map((n) => app.queue.enqueue('late', { n }));
    const watched = calls.map(watch);
    await untilBlocked(1);
    // More calls meanwhile wait for that commit.
    calls.push(...numbers(50).map((n) => app.queue.enqueue('late', { n })));
    await untilBlocked(1);
    expect(watched.filter(({ result }) => result)).toEqual([]);
    expect(await app.sql('select id from pgqueue.jobs')).toEqual([]);

    const visible = calls.map(async (call) => {
      const { id } = await call;
      return app.status(id); // on a connection of the test's own
    });
    await holder.query('select pg_advisory_unlock($1)', [COMMITS]);
    expect(new Set(await Promise.all(visible))).toEqual(new Set(['queued']));
    expect(await transactions(await Promise.all(calls))).toBe(2);
  });

  it('fail alone where the database refuses one, with its own error', async () => {
    const good = numbers(50).map((n) => app.queue.enqueue('k', { n }));
    const refused = app.queue.enqueue('refused', {});
    const more = numbers(50).map((n) => app.queue.enqueue('k', { n }));
    await expect(refused).rejects.toMatchObject({ code: '23514', constraint: 'not_refused' });
    const results = await Promise.all([...good, ...more]);
    // A hundred and one are halved seven times.
    expect(await transactions(results)).toBeLessThanOrEqual(7);
    const [row] = await app.sql('select count(*)::int as n from pgqueue.jobs');
    expect(row.n).toBe(100);
  });

  it('fail each with its own error where the database refuses several', async () => {
    const calls = numbers(20).map((n) => app.queue.enqueue(n % 5 === 0 ? 'refused' : 'k', { n }));
    const ends = await Promise.allSettled(calls);
    expect(ends.map(({ status }) => status === 'rejected')).toEqual(
      numbers(20).map((n) => n % 5 === 0),
    );
  });
});

describe('a dedupe key that is held in an open transaction', () => {
  const key = 'held';
  let held: EnqueueResult;
  beforeEach(async () => {
    await holder.query('begin');
    held = await app.queue.enqueue('k', {}, { tx: holder, dedupe: key });
  });

  it('holds up neither jobs without a key nor those with other keys', async () => {
    const before = numbers(10).map((n) => app.queue.enqueue('k', {}, { dedupe: `before ${n}` }));
    const waiting = app.queue.enqueue('k', {}, { dedupe: key });
    const watched = watch(waiting);
    const after = numbers(10).map((n) => app.queue.enqueue('k', {}, { dedupe: `after ${n}` }));
    const plain = numbers(20).map((n) => app.queue.enqueue('k', { n }));
    const results = await Promise.all([...before, ...after, ...plain]);
    await untilBlocked(1);
    for (const n of numbers(5)) {
      results.push(await app.queue.enqueue('k', {}, { dedupe: `later ${n}` }));
      results.push(await app.queue.enqueue('k', {}));
    }
    expect(new Set(results.map(({ outcome }) => outcome))).toEqual(new Set(['inserted']));
    expect(watched.result).toBeUndefined();
    await holder.query('commit');
    expect(await waiting).toEqual({ id: held.id, outcome: 'duplicate' });
  });

  it('is a duplicate when the holder has committed, and free when it has rolled back', async () => {
    const committed = app.queue.enqueue('k', {}, { dedupe: key });
    await untilBlocked(1);
    await holder.query('commit');
    expect(await committed).toEqual({ id: held.id, outcome: 'duplicate' });

    await holder.query('begin');
    const other = await app.queue.enqueue('k', {}, { tx: holder, dedupe: 'other' });
    const rolledBack = app.queue.enqueue('k', {}, { dedupe: 'other' });
    await untilBlocked(1);
    await holder.query('rollback');
    const { id, outcome } = await rolledBack;
    expect(outcome).toBe('inserted');
    expect(id).not.toBe(other.id);
    expect(await app.status(id)).toBe('queued');
  });

  it('goes to one of several that wait for it, and the others hear its id', async () => {
    const calls = numbers(4).map(() => app.queue.enqueue('k', {}, { dedupe: key }));
    await untilBlocked(1); // the others wait in memory
    await holder.query('rollback');
    const results = await Promise.all(calls);
    expect(new Set(results.map(({ id }) => id)).size).toBe(1);
    expect(results.filter(({ outcome }) => outcome === 'inserted')).toHaveLength(1);
  });

  describe('and that many wait for', () => {
    /** Whether calls are answered within a second each, for two seconds. */
    async function expectAnswers(enqueue: () => Promise<EnqueueResult>): Promise<void> {
      const until = performance.now() + 2_000;
      while (performance.now() < until) {
        const call = watch(enqueue());
        await eventually(() => expect(call.result).toBeDefined(), { timeout: 1_000, interval: 1 });
      }
    }

    it('leaves connections to jobs without a key', async () => {
      const waiting = numbers(12).map(() => app.queue.enqueue('k', {}, { dedupe: key }));
      try {
        await expectAnswers(() => app.queue.enqueue('k', {}));
      } finally {
        await holder.query('rollback');
        await Promise.all(waiting);
      }
    });

    it('holds up other keys no longer than if one waited', async () => {
      const waiting = numbers(30).map(() => app.queue.enqueue('k', {}, { dedupe: key }));
      try {
        let n = 0;
        await expectAnswers(() => app.queue.enqueue('k', {}, { dedupe: `other ${n++}` }));
      } finally {
        await holder.query('rollback');
        await Promise.all(waiting);
      }
    });
  });
});

it('a session has the lock_timeout that it had, after jobs with a key', async () => {
  const { queue } = await startWith([], { worker: false, maxConnections: 1 });
  await queue.enqueue('k', {}, { dedupe: 'free' });
  const { rows } = await queue.transaction((tx) => tx.query('show lock_timeout'));
  expect(rows).toEqual([{ lock_timeout: '0' }]);
});

it('an enqueue with `tx` goes into that transaction and none other does', async () => {
  await holder.query('begin');
  const before = numbers(10).map((n) => app.queue.enqueue('k', { n }));
  const mine = app.queue.enqueue('k', {}, { tx: holder });
  const after = numbers(10).map((n) => app.queue.enqueue('k', { n }));
  const others = await Promise.all([...before, ...after]);
  const { id } = await mine;
  const { rows } = await holder.query<{ id: string; is_mine: boolean }>(
    forSchema(
      `select id, xmin = pg_current_xact_id()::xid as is_mine from pgqueue.jobs`,
      app.schema,
    ),
  );
  expect(rows.filter((row) => row.is_mine)).toEqual([{ id, is_mine: true }]);
  expect(rows).toHaveLength(21);

  await holder.query('rollback');
  expect(await app.status(id)).toBeUndefined();
  expect(await transactions(others)).toBe(1);
});
