import type { JobCounts } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';

let app: TestApp;
let gate: Signal;
let failing = true;

beforeAll(async () => {
  app = await startWith([
    on('held', () => gate.happened),
    on(
      'sync',
      () => {
        if (failing) throw new Error('the CRM is down');
        return { synced: true };
      },
      { maxAttempts: 1 },
    ),
  ]);
});
beforeEach(async () => {
  gate = signal();
  failing = true;
  await app.sql('delete from pgqueue.jobs');
  await app.sql('delete from pgqueue.failed_jobs');
});
afterEach(() => gate.fire());
afterAll(endApps);

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

async function failedJobs(count: number, options = {}): Promise<string[]> {
  const jobs = Array.from({ length: count }, (_, n) => ({
    kind: 'sync',
    payload: { n },
    ...options,
  }));
  const ids = (await app.queue.enqueueMany(jobs)).map(({ id }) => id);
  for (const id of ids) await reaches(id, 'failed');
  return ids;
}

describe('R9: dead letters', () => {
  it('stay with their last error, and "which jobs failed today, and why" is a SELECT', async () => {
    const [id] = await failedJobs(1);
    const rows = await app.sql(
      `select id::text, kind, payload, last_error, attempts from pgqueue.all_jobs
        where status = 'failed' and finished_at >= current_date`,
    );
    expect(rows).toEqual([
      { id, kind: 'sync', payload: { n: 0 }, last_error: 'the CRM is down', attempts: 1 },
    ]);
  });

  it('run again after retry(id), under their id and with attempts reset', async () => {
    const [id = ''] = await failedJobs(1);
    failing = false;
    expect(await app.queue.retry(id)).toEqual({ retried: [id], conflicts: [], notFailed: [] });
    await reaches(id, 'done');
    expect(await app.queue.get(id)).toMatchObject({ attempts: 1, result: { synced: true } });
    expect((await app.queue.get(id))?.errors).toMatchObject([{ message: 'the CRM is down' }]);
  });

  it('run again after retry(ids), which tells what there was not to retry', async () => {
    const ids = await failedJobs(3);
    failing = false;
    const result = await app.queue.retry([...ids, '999999999']);
    expect(result.retried.toSorted()).toEqual(ids.toSorted());
    expect(result.notFailed).toEqual(['999999999']);
    for (const id of ids) await reaches(id, 'done');
  });

  it('run again after retry(filter), as far as they match', async () => {
    const since = new Date(Date.now() - 3_600_000);
    const ids = await failedJobs(2);
    failing = false;
    const nobody = [
      { kind: 'held' },
      { queue: 'mail' },
      { failedBefore: since },
      { failedAfter: new Date(Date.now() + 3_600_000) },
    ];
    for (const filter of nobody) expect((await app.queue.retry(filter)).retried).toEqual([]);
    const all = { kind: 'sync', queue: 'default', failedAfter: since };
    expect((await app.queue.retry(all)).retried.toSorted()).toEqual(ids.toSorted());
    for (const id of ids) await reaches(id, 'done');
  });

  it('run again by the thousand, with {} for all', async () => {
    await app.sql(
      `insert into pgqueue.failed_jobs (id, queue, kind, payload, priority, run_at, attempts,
              max_attempts, lease_no, created_at, failed_at)
       select nextval('pgqueue.jobs_id_seq'), 'default', 'nobody', '{}', 0, now(), 5, 5, 5, now(), now()
         from generate_series(1, 1200)`,
    );
    expect((await app.queue.retry({})).retried).toHaveLength(1_200);
    expect((await app.queue.counts()).failed).toBe(0);
    const [row] = await app.sql(
      `select min(attempts) as low, max(attempts) as high from pgqueue.jobs`,
    );
    expect(row).toEqual({ low: 0, high: 0 });
  });

  it('stay failed while a pending job holds their dedupe key, and the answer names it', async () => {
    const [id = ''] = await failedJobs(1, { dedupe: 'contact' });
    const holder = await app.queue.enqueue('sync', {}, { dedupe: 'contact', delay: '1h' });
    expect(holder.outcome).toBe('inserted');
    expect(await app.queue.retry(id)).toEqual({
      retried: [],
      conflicts: [{ id, holder: holder.id }],
      notFailed: [],
    });
    expect([await app.status(id), await app.status(holder.id)]).toEqual(['failed', 'scheduled']);
    expect(await app.sql('select pgqueue.retry($1) as outcome', [id])).toEqual([
      { outcome: 'conflict' },
    ]);
  });

  it('run again from psql', async () => {
    const [id = ''] = await failedJobs(1);
    failing = false;
    expect(await app.sql('select pgqueue.retry($1) as outcome', [id])).toEqual([
      { outcome: 'retried' },
    ]);
    await reaches(id, 'done');
    expect(await app.sql('select pgqueue.retry($1) as outcome', [id])).toEqual([
      { outcome: 'not_failed' },
    ]);
  });

  it.each([
    ['a misspelt filter', { kinds: 'sync' }, 'filter.kinds'],
    ['a date that is none', { failedAfter: new Date(Number.NaN) }, 'filter.failedAfter'],
    ['text for a date', { failedBefore: '2027-01-01' }, 'filter.failedBefore'],
    ['an id that is no number', 'abc', 'id'],
    ['an id beyond bigint', '9223372036854775808', 'id'],
    ['a number among the ids', [1], 'id'],
  ])('%s is refused, and nothing is retried', async (_what, which, named) => {
    await failedJobs(1);
    await expect(app.queue.retry(which as never)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(named),
    });
    expect((await app.queue.counts()).failed).toBe(1);
  });
});

describe('cancel', () => {
  it('ends a job that waits, which then never runs', async () => {
    const { id } = await app.queue.enqueue('sync', {}, { delay: '1h' });
    expect(await app.queue.cancel(id)).toBe('cancelled');
    expect(await app.queue.get(id)).toMatchObject({ status: 'cancelled', attempts: 0 });
    expect(await app.queue.cancel(id)).toBe('finished');
  });

  it('leaves a job alone that runs', async () => {
    const { id } = await app.queue.enqueue('held', {});
    await reaches(id, 'running');
    expect(await app.queue.cancel(id)).toBe('running');
    expect(await app.sql('select pgqueue.cancel($1) as outcome', [id])).toEqual([
      { outcome: 'running' },
    ]);
    gate.fire();
    await reaches(id, 'done');
    expect(await app.queue.cancel(id)).toBe('finished');
  });

  it('says finished of a failed job, and not_found of none', async () => {
    const [id = ''] = await failedJobs(1);
    expect(await app.queue.cancel(id)).toBe('finished');
    expect(await app.queue.cancel('999999999')).toBe('not_found');
    await expect(app.queue.cancel('x')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('get and counts', () => {
  it('get tells everything of a job that waits', async () => {
    const runAt = new Date(Date.now() + 3_600_000);
    const { id } = await app.queue.enqueue(
      'sync',
      { userId: '7' },
      {
        queue: 'crm',
        priority: -5,
        runAt,
        maxAttempts: 9,
        dedupe: 'seven',
        meta: { trace: 'abc' },
      },
    );
    expect(await app.queue.get(id)).toEqual({
      id,
      queue: 'crm',
      kind: 'sync',
      payload: { userId: '7' },
      status: 'scheduled',
      priority: -5,
      runAt,
      attempts: 0,
      maxAttempts: 9,
      lockedBy: null,
      dedupeKey: 'seven',
      lastError: null,
      errors: [],
      meta: { trace: 'abc' },
      createdAt: expect.any(Date),
      finishedAt: null,
      result: null,
    });
  });

  it('get tells who runs a job, and what it returned', async () => {
    const { id } = await app.queue.enqueue('held', {});
    await reaches(id, 'running');
    const [worker] = await app.sql('select id from pgqueue.workers');
    expect(await app.queue.get(id)).toMatchObject({ lockedBy: worker.id, attempts: 1 });
    gate.fire();
    failing = false;
    const { id: synced } = await app.queue.enqueue('sync', {});
    await reaches(synced, 'done');
    const job = await app.queue.get(synced);
    expect(job).toMatchObject({ lockedBy: worker.id, result: { synced: true } });
    expect(job?.finishedAt).toBeInstanceOf(Date);
  });

  it('get answers undefined if there is no such job, and refuses what can be no id', async () => {
    expect(await app.queue.get('999999999')).toBeUndefined();
    await expect(app.queue.get('1; drop table jobs')).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  it('counts tells what is pending and failed, by status', async () => {
    await failedJobs(2);
    const { id } = await app.queue.enqueue('held', {});
    await reaches(id, 'running');
    await app.sql('update pgqueue.queues set paused_at = now()');
    await app.queue.enqueueMany([
      { kind: 'sync', delay: '1h' },
      { kind: 'sync', delay: '1h' },
      { kind: 'sync', delay: '1h' },
      { kind: 'sync' },
    ]);
    const counts: JobCounts = {
      queued: 1,
      scheduled: 3,
      waiting: 0,
      running: 1,
      failed: 2,
      withoutHandler: 0,
    };
    expect(await app.queue.counts()).toEqual(counts);
    await app.sql('update pgqueue.queues set paused_at = null');
  });
});
