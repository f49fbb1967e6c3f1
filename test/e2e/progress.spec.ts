import type { JobContext } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

async function progressOf(app: TestApp, id: string): Promise<unknown> {
  return (await app.queue.get(id))?.progress;
}

const rows = (app: TestApp) => app.sql('select job_id, value from pgqueue.job_progress');

describe('job.progress', () => {
  it('is shown while the attempt runs, the latest value, and is gone after it', async () => {
    const steps = [signal(), signal()] as const;
    const running: JobContext[] = [];
    const app = await startWith([
      on('import', async (_payload, job) => {
        running.push(job);
        job.progress(10);
        await steps[0].happened;
        for (let done = 1; done <= 1_000; done += 1) job.progress({ done, of: 1_000 });
        await steps[1].happened;
      }),
    ]);
    const { id } = await app.queue.enqueue('import', {});
    await eventually(async () => expect(await progressOf(app, id)).toBe(10));
    steps[0].fire();
    await eventually(async () =>
      expect(await progressOf(app, id)).toEqual({ done: 1_000, of: 1_000 }),
    );
    steps[1].fire();
    await eventually(async () => expect(await app.status(id)).toBe('done'));
    expect(await progressOf(app, id)).toBeNull();
    await eventually(async () => expect(await rows(app)).toEqual([]));
    // What comes too late is ignored.
    running[0]?.progress(50);
    await app.queue.enqueue('import', {});
    await eventually(() => expect(running).toHaveLength(2));
    expect(await progressOf(app, id)).toBeNull();
  });

  it('of an attempt that failed is not shown for the next one', async () => {
    const gate = signal();
    const app = await startWith([
      on(
        'import',
        async (_payload, job) => {
          if (job.attempt === 2) return gate.happened;
          job.progress(90);
          await eventually(async () => expect(await progressOf(app, job.id)).toBe(90));
          throw new Error('at 90 %');
        },
        { backoff: { type: 'fixed', delay: 1 } },
      ),
    ]);
    const { id } = await app.queue.enqueue('import', {});
    await eventually(async () =>
      expect(await app.queue.get(id)).toMatchObject({ attempts: 2, status: 'running' }),
    );
    expect(await progressOf(app, id)).toBeNull();
    gate.fire();
  });

  it('of many jobs goes out together, once a second', async () => {
    const gate = signal();
    const app = await startWith([
      on('import', async (payload, job) => {
        job.progress(payload);
        await gate.happened;
      }),
    ]);
    const jobs = Array.from({ length: 20 }, (_, n) => ({ kind: 'import', payload: n }));
    const ids = (await app.queue.enqueueMany(jobs)).map(({ id }) => id);
    await eventually(async () => expect(await rows(app)).toHaveLength(20));
    expect(await progressOf(app, ids[7] ?? '')).toBe(7);
    const times = await app.sql('select distinct written_at from pgqueue.job_progress');
    expect(times.length).toBeLessThanOrEqual(2);
    gate.fire();
    await eventually(async () => expect(await rows(app)).toEqual([]));
  });

  it.each([
    [-1, 'from 0 to 100'],
    [101, 'from 0 to 100'],
    [Number.NaN, 'from 0 to 100'],
    [undefined, 'must be a JSON value'],
    [1n, 'no JSON value'],
    ['a\0b', "can't store"],
    ['x'.repeat(5_000), 'at most 4096'],
  ])('refuses %p, which fails the attempt', async (value, message) => {
    const app = await startWith([
      on('import', (_payload, job) => job.progress(value), { maxAttempts: 1 }),
    ]);
    const { id } = await app.queue.enqueue('import', {});
    await eventually(async () => expect(await app.status(id)).toBe('failed'));
    expect((await app.queue.get(id))?.lastError).toContain(message);
    expect((await app.queue.get(id))?.errors[0]?.name).toBe('PgQueueError');
  });

  it('leaves nothing of a worker that died: the housekeeping removes it', async () => {
    const app = await startWith([], { worker: false });
    await app.sql(`insert into pgqueue.job_progress (job_id, lease_no, value) values (7, 1, '1')`);
    const { id } = await app.queue.enqueue('import', {});
    await app.sql(
      `insert into pgqueue.job_progress (job_id, lease_no, value) values ($1, 0, '2')`,
      [id],
    );
    expect(await progressOf(app, id)).toBeNull();
    await startWith([on('other', () => {})], { schema: app.schema });
    await eventually(async () => expect(await rows(app)).toMatchObject([{ job_id: id }]));
  });
});
