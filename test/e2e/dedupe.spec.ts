import { endApps, on, pool, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';

let app: TestApp;
let ran: string[] = [];
let gate: Signal;

beforeAll(async () => {
  app = await startWith([
    on('quick', (_payload, job) => ran.push(job.id)),
    on('held', async (_payload, job) => {
      ran.push(job.id);
      await gate.happened;
    }),
    on('flaky', (_payload, job) => {
      if (job.attempt === 1) throw new Error('not yet');
    }),
    on('doomed', () => Promise.reject(new Error('no')), { maxAttempts: 1 }),
  ]);
});
beforeEach(() => {
  ran = [];
  gate = signal();
});
afterEach(() => gate.fire());
afterAll(endApps);

const LATER = { delay: '1h' } as const;

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

describe('R10: the dedupe key', () => {
  it('a second enqueue changes nothing and answers the first id', async () => {
    const first = await app.queue.enqueue('quick', { n: 1 }, { dedupe: 'twice', ...LATER });
    const second = await app.queue.enqueue('quick', { n: 2 }, { dedupe: { key: 'twice' } });
    expect(first.outcome).toBe('inserted');
    expect(second).toEqual({ id: first.id, outcome: 'duplicate' });
    expect((await app.queue.get(first.id))?.payload).toEqual({ n: 1 });
    expect((await app.queue.get(first.id))?.status).toBe('scheduled');
  });

  it('is of a kind: another kind may have the same key', async () => {
    const one = await app.queue.enqueue('quick', {}, { dedupe: 'shared', ...LATER });
    const other = await app.queue.enqueue('held', {}, { dedupe: 'shared', ...LATER });
    expect([one.outcome, other.outcome]).toEqual(['inserted', 'inserted']);
  });

  it('is held while the job runs, and free when it is done', async () => {
    const first = await app.queue.enqueue('held', {}, { dedupe: 'running' });
    await eventually(() => expect(ran).toEqual([first.id]));
    expect(await app.queue.enqueue('held', {}, { dedupe: 'running' })).toEqual({
      id: first.id,
      outcome: 'duplicate',
    });
    gate.fire();
    await reaches(first.id, 'done');
    const next = await app.queue.enqueue('held', {}, { dedupe: 'running' });
    expect(next.outcome).toBe('inserted');
    await reaches(next.id, 'done');
  });

  it('is held while the job waits for its retry', async () => {
    const first = await app.queue.enqueue('flaky', {}, { dedupe: 'retrying' });
    await reaches(first.id, 'scheduled');
    const second = await app.queue.enqueue('flaky', {}, { dedupe: 'retrying' });
    expect(second).toEqual({ id: first.id, outcome: 'duplicate' });
    await app.sql('update pgqueue.jobs set run_at = now(), waits_for = null where id = $1', [
      first.id,
    ]);
    await app.queue.enqueue('quick', {});
    await reaches(first.id, 'done');
  });

  it('is free when the job has failed for good or was cancelled', async () => {
    const failed = await app.queue.enqueue('doomed', {}, { dedupe: 'freed' });
    await reaches(failed.id, 'failed');
    const second = await app.queue.enqueue('doomed', {}, { dedupe: 'freed', ...LATER });
    expect(second.outcome).toBe('inserted');
    expect(await app.queue.cancel(second.id)).toBe('cancelled');
    const third = await app.queue.enqueue('doomed', {}, { dedupe: 'freed', ...LATER });
    expect(third.outcome).toBe('inserted');
  });

  it('enqueueMany keeps the first of a key, within the list and against the table', async () => {
    const before = await app.queue.enqueue('quick', {}, { dedupe: 'b', ...LATER });
    const results = await app.queue.enqueueMany([
      { kind: 'quick', dedupe: 'a', ...LATER },
      { kind: 'quick', dedupe: 'b', ...LATER },
      { kind: 'quick', ...LATER },
      { kind: 'quick', dedupe: 'a', ...LATER },
    ]);
    expect(results.map(({ outcome }) => outcome)).toEqual([
      'inserted',
      'duplicate',
      'inserted',
      'duplicate',
    ]);
    expect(results[1]?.id).toBe(before.id);
    expect(results[3]?.id).toBe(results[0]?.id);
  });

  it('of 50 calls at once one inserts, and all answer its id', async () => {
    const results = await Promise.all(
      Array.from({ length: 50 }, () =>
        app.queue.enqueue('quick', {}, { dedupe: 'crowd', ...LATER }),
      ),
    );
    expect(new Set(results.map(({ id }) => id)).size).toBe(1);
    expect(results.filter(({ outcome }) => outcome === 'inserted')).toHaveLength(1);
  });

  it('waits for the holder’s transaction, and takes its place after a rollback', async () => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const options = { dedupe: 'rolled back', ...LATER };
      const held = await app.queue.enqueue('quick', {}, { tx: client, ...options });
      const waiting = app.queue.enqueue('quick', {}, options);
      await eventually(async () => {
        const [row] = await app.sql(
          `select count(*)::int as n from pg_stat_activity
            where wait_event_type = 'Lock' and query like '%' || $1 || '%enqueue_many%'`,
          [app.schema],
        );
        expect(row.n).toBe(1);
      });
      await client.query('rollback');
      const { id, outcome } = await waiting;
      expect(outcome).toBe('inserted');
      expect(id).not.toBe(held.id);
      expect(await app.status(id)).toBe('scheduled');
    } finally {
      client.release();
    }
  });

  it('in psql, ON CONFLICT DO NOTHING does the same', async () => {
    const insert = `insert into pgqueue.jobs (kind, run_at, dedupe_key) values ('quick', now() + interval '1 h', 'sql')
      on conflict (kind, dedupe_key) where dedupe_key is not null do nothing returning id::text`;
    const [first] = await app.sql(insert);
    expect(await app.sql(insert)).toEqual([]);
    const second = await app.queue.enqueue('quick', {}, { dedupe: 'sql' });
    expect(second).toEqual({ id: first.id, outcome: 'duplicate' });
    const [third] = await app.sql(
      `select pgqueue.enqueue('quick', dedupe_key => 'sql')::text as id`,
    );
    expect(third).toEqual({ id: first.id });
  });
});
