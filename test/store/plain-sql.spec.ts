import {
  exchange,
  openStore,
  startWorker,
  statusOf,
  untilWaiting,
  type Session,
  type TestStore,
} from '../support/store.js';
import { wait } from '../../lib/store/statements/workers.js';

// What psql, a trigger or another language does: no function of the package's TypeScript takes part.

let t: TestStore;
let sql: Session;
let worker: string;

beforeAll(async () => {
  t = await openStore();
  sql = await t.connect();
});
afterAll(() => t.close());
beforeEach(async () => {
  await t.observer.query('truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs');
  worker = await startWorker(t.observer);
});

const claimed = async (): Promise<string[]> =>
  (await exchange(t.observer, { worker, want: 100 })).jobs.map(({ id }) => id);

describe('a plain INSERT', () => {
  test('with a kind and a payload is a complete enqueue', async () => {
    const id = await sql.value<string>(
      `insert into pgqueue.jobs (kind, payload) values ('k', '{"userId": "7"}') returning id`,
    );
    const { jobs } = await exchange(t.observer, { worker, want: 1 });
    expect(jobs).toMatchObject([
      { id, queue: 'default', payload: '{"userId": "7"}', attempt: 1, maxAttempts: 5, meta: null },
    ]);
  });

  test('with ON CONFLICT DO NOTHING is one of the key, as long as that is pending', async () => {
    const insert = `insert into pgqueue.jobs (kind, dedupe_key) values ('k', 'key')
      on conflict (kind, dedupe_key) where dedupe_key is not null do nothing returning id`;
    const [first] = await sql.rows<{ id: string }>(insert);
    expect(await sql.rows(insert)).toEqual([]);
    expect(await claimed()).toEqual([first?.id]);
    expect(await sql.rows(insert)).toEqual([]);
    const settlements = [{ id: first?.id ?? '', leaseNo: 1, action: 'fail' as const }];
    await exchange(t.observer, { worker, settlements });
    expect(await sql.rows(insert)).toHaveLength(1);
  });

  test('of a job that lies ahead is scheduled, and one of the past is due', async () => {
    const rows = await sql.rows<{ status: string }>(`
      insert into pgqueue.jobs (kind, run_at) values
        ('k', now() + interval '1 h'), ('k', now() - interval '1 h'), ('k', 'infinity'), ('k', '-infinity')
      returning status`);
    expect(rows.map(({ status }) => status)).toEqual([
      'scheduled',
      'queued',
      'scheduled',
      'queued',
    ]);
    expect(await claimed()).toHaveLength(2);
  });

  test('is refused where a value could not be worked with later', async () => {
    const bad = [
      `(kind) values ('')`,
      `(kind) values (null)`,
      `(kind) values (repeat('k', 256))`,
      `(kind, queue) values ('k', '')`,
      `(kind, dedupe_key) values ('k', '')`,
      `(kind, waits_for) values ('k', 'godot')`,
      `(kind, errors) values ('k', '{}')`,
      `(kind, id) values ('k', 1)`,
      `(kind, status) values ('k', 'running')`,
    ];
    for (const row of bad) {
      await expect(sql.query(`insert into pgqueue.jobs ${row}`)).rejects.toMatchObject({
        code: expect.stringMatching(/^(23|428)/),
      });
    }
  });

  test('rings once a queue and transaction if somebody waits, and only when it is committed', async () => {
    const listener = await t.connect();
    const rings: string[] = [];
    const end = new Promise<void>((resolve) => {
      listener.client.on('notification', ({ payload }) => {
        if (payload === 'end') resolve();
        else rings.push(payload ?? '');
      });
    });
    const channel = await listener.value<string>('select pgqueue.doorbell()');
    await listener.query(`listen "${channel}"`);
    await listener.run(wait, ['mail', 'rolled back', 'reports']);
    await sql.begin();
    await sql.query(`insert into pgqueue.jobs (kind, queue) values ('k', 'rolled back')`);
    await sql.rollback();
    await sql.query(`insert into pgqueue.jobs (kind, queue) values ('k', 'nobody waits for this')`);
    await sql.begin();
    for (const queue of ['mail', 'mail', 'reports']) {
      await sql.query(
        `insert into pgqueue.jobs (kind, queue) select 'k', $1 from generate_series(1, 100)`,
        [queue],
      );
    }
    await sql.commit();
    await sql.query('select pg_notify($1, $2)', [channel, 'end']);
    await end;
    expect(rings).toEqual(['mail', 'reports']);
  });

  test('B30: of 20 kB, of a long kind, and of ten thousand jobs in one transaction commits', async () => {
    await sql.begin();
    await sql.query(
      `insert into pgqueue.jobs (kind, payload) values ('k', to_jsonb(repeat('x', 20000)))`,
    );
    await sql.query(
      `insert into pgqueue.jobs (kind, queue) values (repeat('k', 200), repeat('ü', 127))`,
    );
    await sql.query(
      `insert into pgqueue.jobs (kind, queue) select 'k', 'queue ' || i from generate_series(1, 10000) i`,
    );
    await sql.commit();
    expect(await sql.value('select count(*) from pgqueue.jobs')).toBe('10002');
    const { jobs } = await exchange(t.observer, { worker, want: 10 });
    expect(jobs.map(({ payload }) => payload.length)).toEqual([20_002]);
  });
});

describe('pgqueue.enqueue', () => {
  test('answers the id of the new job, and of the holder of the key if there is one', async () => {
    const first = await sql.value<string>(`select pgqueue.enqueue('k', '{"n": 1}')`);
    const second = await sql.value<string>(`select pgqueue.enqueue('k', dedupe_key => 'key')`);
    const third = await sql.value<string>(`select pgqueue.enqueue('k', dedupe_key => 'key')`);
    expect(third).toBe(second);
    expect(await claimed()).toEqual([first, second]);
  });

  test('takes every option by name', async () => {
    const id = await sql.value<string>(`
      select pgqueue.enqueue('k', '[1, null]', queue => 'mail', run_at => '2040-01-01 00:00+00',
                             priority => -3, max_attempts => 1, meta => '{"tenant": 7}')`);
    expect(await t.store.getJob(id)).toMatchObject({
      queue: 'mail',
      payload: [1, null],
      status: 'scheduled',
      priority: -3,
      maxAttempts: 1,
      runAt: new Date('2040-01-01'),
      meta: { tenant: 7 },
    });
  });
});

describe('pgqueue.retry', () => {
  test('brings a failed job back, and names why not otherwise', async () => {
    const id = await sql.value<string>(`select pgqueue.enqueue('k', dedupe_key => 'key')`);
    expect(await sql.value('select pgqueue.retry($1)', [id])).toBe('not_failed');
    await claimed();
    await exchange(t.observer, { worker, settlements: [{ id, leaseNo: 1, action: 'fail' }] });
    const holder = await sql.value<string>(`select pgqueue.enqueue('k', dedupe_key => 'key')`);
    expect(await sql.value('select pgqueue.retry($1)', [id])).toBe('conflict');
    expect(await sql.value('select pgqueue.cancel($1)', [holder])).toBe('cancelled');
    expect(await sql.value('select pgqueue.retry($1)', [id])).toBe('retried');
    expect(await claimed()).toEqual([id]);
  });
});

describe('pgqueue.cancel', () => {
  test('ends a job that waits, asks for the end of one that runs, and leaves one alone that has ended', async () => {
    const cancel = (id: string) => sql.value('select pgqueue.cancel($1)', [id]);
    const id = await sql.value<string>(`select pgqueue.enqueue('k')`);
    const later = await sql.value<string>(
      `select pgqueue.enqueue('k', run_at => now() + interval '1 h')`,
    );
    await claimed();
    expect(await cancel(id)).toBe('requested');
    expect(await cancel(id)).toBe('requested');
    expect(await cancel(later)).toBe('cancelled');
    expect(await statusOf(sql, later)).toBe('cancelled');
    expect(await cancel(later)).toBe('finished');
    await exchange(t.observer, { worker, settlements: [{ id, leaseNo: 1, action: 'fail' }] });
    expect(await statusOf(sql, id)).toBe('cancelled');
    expect(await cancel(id)).toBe('finished');
    expect(await cancel('9000000000000000000')).toBe('not_found');
  });

  test('that waits for a claim in flight finds the job running', async () => {
    const id = await sql.value<string>(`select pgqueue.enqueue('k')`);
    const claimant = await t.connect();
    await claimant.begin();
    await exchange(claimant, { worker, want: 1 });
    const answer = sql.value('select pgqueue.cancel($1)', [id]);
    await untilWaiting(t.observer, sql);
    await claimant.commit();
    expect(await answer).toBe('requested');
    expect(await statusOf(sql, id)).toBe('running');
  });

  test('in an open transaction costs a claim nothing, which takes other jobs meanwhile', async () => {
    const id = await sql.value<string>(`select pgqueue.enqueue('k')`);
    const other = await sql.value<string>(`select pgqueue.enqueue('k')`);
    await sql.begin();
    expect(await sql.value('select pgqueue.cancel($1)', [id])).toBe('cancelled');
    expect(await claimed()).toEqual([other]);
    await sql.rollback();
    expect(await claimed()).toEqual([id]);
  });
});
