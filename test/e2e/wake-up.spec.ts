import { endApps, on, pool, sqlIn, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';

/** No poll comes in the time of a test: what runs was announced. */
const NEVER = { pollInterval: '1h' } as const;

let ran: string[] = [];
const note = on('note', (_payload, job) => ran.push(job.id));

beforeEach(() => {
  ran = [];
});
afterEach(endApps);

/** Resolves when the worker has nothing left to look at but what comes from now on. */
async function untilAsleep(app: TestApp): Promise<void> {
  const { id } = await app.queue.enqueue('note', {});
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  await untilListening(app);
  ran = [];
}

function untilListening(app: TestApp): Promise<void> {
  return eventually(async () => expect(await listeners(app)).toHaveLength(1));
}

/** The sessions of workers that wait to be rung for. */
async function listeners(app: TestApp): Promise<number[]> {
  const rows = await app.sql(
    `select pid from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and granted
        and (classid::bigint << 32) | objid::bigint = pgqueue.waiting_key('default')`,
  );
  return rows.map(({ pid }) => pid as number);
}

describe('R11: wake-up', () => {
  it('a notification at commit wakes a worker that does not poll', async () => {
    const app = await startWith([note], { worker: NEVER });
    await untilAsleep(app);
    const { id } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([id]));
  });

  it('so does an INSERT in plain SQL, and pgqueue.enqueue', async () => {
    const app = await startWith([note], { worker: NEVER });
    await untilAsleep(app);
    const [first] = await app.sql(
      `insert into pgqueue.jobs (kind, payload) values ('note', '{"from": "psql"}') returning id::text`,
    );
    await eventually(() => expect(ran).toEqual([first.id]));
    const [second] = await app.sql(`select pgqueue.enqueue('note')::text as id`);
    await eventually(() => expect(ran).toEqual([first.id, second.id]));
  });

  it('so does a retry by hand', async () => {
    const app = await startWith([note], { worker: NEVER });
    await untilAsleep(app);
    const [{ id }] = await app.sql(
      `insert into pgqueue.failed_jobs (id, queue, kind, payload, priority, run_at, attempts,
              max_attempts, lease_no, created_at, failed_at)
       values (nextval('pgqueue.jobs_id_seq'), 'default', 'note', '{}', 0, now(), 5, 5, 5, now(), now())
       returning id::text`,
    );
    await app.queue.retry(id as string);
    await eventually(() => expect(ran).toEqual([id]));
  });

  it('a rollback wakes nobody', async () => {
    const app = await startWith([note], { worker: NEVER });
    await untilAsleep(app);
    const client = await pool.connect();
    const heard: unknown[] = [];
    client.on('notification', ({ payload }) => heard.push(payload));
    const [{ channel }] = await app.sql('select pgqueue.doorbell() as channel');
    await client.query(`listen ${channel}`);
    const rollback = app.queue.transaction(async (tx) => {
      await app.queue.enqueue('note', {}, { tx });
      throw new Error('rolled back');
    });
    await expect(rollback).rejects.toThrow('rolled back');
    // Notifications are in the order of commits: what the rollback had sent would come before this one.
    await client.query(`select pg_notify($1, 'the end')`, [channel]);
    await eventually(() => expect(heard).toContain('the end'));
    expect(heard).toEqual(['the end']);
    client.removeAllListeners('notification');
    client.release(true);
  });

  it('without a listener polling finds the jobs, and the log says so', async () => {
    const app = await startWith([note], { listen: false, worker: { pollInterval: 50 } });
    expect(log.text).toContain('Polling every 50 ms, without a listener');
    expect(await listeners(app)).toEqual([]);
    const { id } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([id]));
    expect(await listeners(app)).toEqual([]);
  });

  it('with a listener polling goes on: it finds what no notification told', async () => {
    const app = await startWith([note], { worker: { pollInterval: 100 } });
    await untilAsleep(app);
    await app.sql('alter table pgqueue.jobs disable trigger jobs_ring');
    const { id } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([id]));
  });

  it('a listener that lost its connection comes back, and what came meanwhile is found', async () => {
    const app = await startWith([note], { worker: NEVER });
    await untilAsleep(app);
    await pool.query('select pg_terminate_backend(pid) from unnest($1::int[]) as pid', [
      await listeners(app),
    ]);
    const { id: meanwhile } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([meanwhile]));
    await untilListening(app);
    const { id: after } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([meanwhile, after]));
    expect(log.lines.filter((line) => line.includes('listener lost its connection'))).toHaveLength(
      1,
    );
  });

  it('a delayed job starts within 50 ms of its time on an idle queue', async () => {
    const lateness: number[] = [];
    const clock = on('clock', async (_payload, job) => {
      // The handler is running before this statement is sent, so the job began earlier than measured.
      const [row] = await sqlIn(
        app.schema,
        'select 1000 * extract(epoch from clock_timestamp() - run_at)::float8 as ms from pgqueue.jobs where id = $1',
        [job.id],
      );
      lateness.push(row.ms as number);
    });
    const app = await startWith([note, clock], { worker: NEVER });
    await untilAsleep(app);
    // The best of a few: other work on the machine may delay any single one.
    for (let attempt = 1; attempt <= 8; attempt++) {
      await app.queue.enqueue('clock', {}, { delay: 250 });
      await eventually(() => expect(lateness).toHaveLength(attempt), { interval: 5 });
      if (Math.min(...lateness) < 50) break;
    }
    expect(Math.min(...lateness)).toBeGreaterThanOrEqual(0);
    expect(Math.min(...lateness)).toBeLessThan(50);
  });

  it('a job that is delayed behind a later one does not wait for it', async () => {
    const app = await startWith([note], { worker: NEVER });
    await untilAsleep(app);
    await app.queue.enqueue('note', {}, { delay: '1h' });
    const { id } = await app.queue.enqueue('note', {}, { delay: 300 });
    await eventually(() => expect(ran).toEqual([id]));
  });
});
