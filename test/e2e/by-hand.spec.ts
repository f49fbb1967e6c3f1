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

describe('cancel', () => {
  it('ends a job that waits, which then never runs', async () => {
    const { id } = await app.queue.enqueue('sync', {}, { delay: '1h' });
    expect(await app.queue.cancel(id)).toBe('cancelled');
    expect(await app.queue.get(id)).toMatchObject({ status: 'cancelled', attempts: 0 });
    expect(await app.queue.cancel(id)).toBe('finished');
  });

  it('of a job that runs is a request, which its end grants', async () => {
    const { id } = await app.queue.enqueue('held', {});
    await reaches(id, 'running');
    expect(await app.queue.cancel(id)).toBe('requested');
    expect(await app.sql('select pgqueue.cancel($1) as outcome', [id])).toEqual([
      { outcome: 'requested' },
    ]);
    expect(await app.status(id)).toBe('running');
    gate.fire();
    await reaches(id, 'cancelled');
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
      deadline: null,
      cancelRequestedAt: null,
      progress: null,
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
