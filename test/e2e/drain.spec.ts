import type { JobContext } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

let ran: JobContext[] = [];
const note = on('note', (_payload, job) => ran.push(job));

beforeEach(() => {
  ran = [];
});
afterEach(endApps);

const enqueueOnly = { worker: false } as const;

function manyNotes(app: TestApp, count: number) {
  return app.queue.enqueueMany(
    Array.from({ length: count }, (_, n) => ({ kind: 'note', payload: n })),
  );
}

describe('R16: drain', () => {
  it('runs what is due in a process that has no worker, and leaves nothing behind', async () => {
    const app = await startWith([note], enqueueOnly);
    await manyNotes(app, 30);
    await app.queue.enqueue('note', {}, { delay: '1h' });
    expect(await app.queue.drain()).toEqual({
      claimed: 30,
      done: 30,
      retried: 0,
      failed: 0,
      reason: 'empty',
    });
    expect(ran).toHaveLength(30);
    expect(await app.queue.counts()).toMatchObject({ queued: 0, running: 0, scheduled: 1 });
    expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
  });

  it('of an empty queue ends at once', async () => {
    const app = await startWith([note], enqueueOnly);
    const began = performance.now();
    expect(await app.queue.drain({ timeout: '20s' })).toMatchObject({
      claimed: 0,
      reason: 'empty',
    });
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  it('runs no more than max, the most urgent first', async () => {
    const app = await startWith([note], enqueueOnly);
    await manyNotes(app, 5);
    const urgent = await app.queue.enqueue('note', {}, { priority: -1 });
    expect(await app.queue.drain({ max: 1 })).toMatchObject({ claimed: 1, reason: 'max' });
    expect(ran.map(({ id }) => id)).toEqual([urgent.id]);
    expect(await app.queue.drain({ max: 3 })).toMatchObject({ claimed: 3, done: 3, reason: 'max' });
    expect(await app.queue.counts()).toMatchObject({ queued: 2, running: 0 });
  });

  it('runs max jobs although other kinds and queues have room and nothing to do', async () => {
    const own = on('own', () => {}, { concurrency: 5 });
    const elsewhere = on('elsewhere', () => {}, { queue: 'other' });
    const app = await startWith([own, note, elsewhere], enqueueOnly);
    await manyNotes(app, 8);
    expect(await app.queue.drain({ max: 5 })).toMatchObject({ claimed: 5, reason: 'max' });
    await app.queue.enqueueMany([{ kind: 'elsewhere' }, { kind: 'elsewhere' }]);
    expect(await app.queue.drain({ max: 40 })).toMatchObject({ claimed: 5, reason: 'empty' });
  });

  it('is not empty while scheduled jobs are due behind more of other kinds than are promoted at once', async () => {
    const app = await startWith([note], enqueueOnly);
    await app.sql(`insert into pgqueue.jobs (kind, run_at) select 'foreign', now() + interval '1 h'
                     from generate_series(1, 1500)`);
    const { id } = await app.queue.enqueue('note', {}, { delay: '1h' });
    // All of them are due now, and still stand aside.
    await app.sql(
      `update pgqueue.jobs set run_at = now() - interval '1 min' where kind = 'foreign'`,
    );
    await app.sql(`update pgqueue.jobs set run_at = now() where id = $1`, [id]);
    expect(await app.queue.drain()).toMatchObject({ claimed: 1, done: 1, reason: 'empty' });
  });

  it('refuses options that it does not know', async () => {
    const app = await startWith([note], enqueueOnly);
    const misspelt = { tiemout: 5 } as object;
    await expect(app.queue.drain(misspelt)).rejects.toThrow(/tiemout.*max, timeout, queues/);
  });

  it('runs only jobs of the queues that it is told', async () => {
    const mail = on('mail', (_payload, job) => ran.push(job), { queue: 'mail' });
    const app = await startWith([note, mail], enqueueOnly);
    await app.queue.enqueueMany([
      { kind: 'note' },
      { kind: 'mail' },
      { kind: 'note', queue: 'mail' },
      { kind: 'note', queue: 'bulk' }, // which no handler names
    ]);
    expect(await app.queue.drain({ queues: ['mail'] })).toMatchObject({ claimed: 2, done: 2 });
    expect(ran.map(({ queue }) => queue)).toEqual(['mail', 'mail']);
    expect(await app.queue.drain({ queues: ['bulk', 'mail'] })).toMatchObject({ claimed: 1 });
    expect(await app.queue.drain()).toMatchObject({ claimed: 1, reason: 'empty' });
  });

  it('has as many slots in a queue that it is told as the worker has there', async () => {
    let running = 0;
    let most = 0;
    const turn = on('turn', async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise(setImmediate);
      running -= 1;
    });
    // The worker that stays does not look again: what there is is the drain's.
    const worker = { queues: { narrow: { concurrency: 2 } }, pollInterval: '1h' } as const;
    const app = await startWith([turn], { worker, listen: false });
    await eventually(async () =>
      expect(await app.sql('select id from pgqueue.workers')).toHaveLength(1),
    );
    await app.sql(
      `insert into pgqueue.queues (name, paused_at) values ('narrow', now())
       on conflict (name) do update set paused_at = now()`,
    );
    const job = { kind: 'turn', queue: 'narrow' };
    await app.queue.enqueueMany(Array.from({ length: 30 }, () => job));
    await app.sql('update pgqueue.queues set paused_at = null');
    expect(await app.queue.drain({ queues: ['narrow'] })).toMatchObject({ reason: 'empty' });
    // Should the first look of the worker come as late as this, it has its own two.
    expect(most).toBeLessThanOrEqual(4);
    expect(most).toBeGreaterThanOrEqual(2);
  });

  it('also runs what its own jobs enqueue', async () => {
    const app: TestApp = await startWith(
      [
        on('parent', async () => {
          await app.queue.enqueue('note', {});
        }),
        note,
      ],
      enqueueOnly,
    );
    await app.queue.enqueue('parent', {});
    expect(await app.queue.drain()).toMatchObject({ claimed: 2, done: 2, reason: 'empty' });
  });

  it('counts what failed and what will be repeated', async () => {
    const failing = on('fails', () => Promise.reject(new Error('no')));
    const app = await startWith([failing, note], enqueueOnly);
    await app.queue.enqueue('fails', {});
    await app.queue.enqueue('fails', {}, { maxAttempts: 1 });
    await app.queue.enqueue('note', {});
    expect(await app.queue.drain()).toEqual({
      claimed: 3,
      done: 1,
      retried: 1,
      failed: 1,
      reason: 'empty',
    });
  });

  it('begins nothing after its time, and gives what runs the grace', async () => {
    const aborted = signal<unknown>();
    const stubborn = on('stubborn', (_payload, job) => {
      job.signal.addEventListener('abort', () => aborted.fire(job.signal.reason));
      return aborted.happened.then(() => Promise.reject(new Error('stopped')));
    });
    const busy = signal();
    const end = signal();
    const blocker = on('blocker', () => {
      busy.fire();
      return end.happened;
    });
    // The one slot of its worker is taken, so that the job is the drain's.
    const worker = { concurrency: 1, shutdownGrace: '100ms' } as const;
    const app = await startWith([stubborn, blocker], { worker });
    await app.queue.enqueue('blocker', {});
    await busy.happened;
    const { id } = await app.queue.enqueue('stubborn', {});
    const began = performance.now();
    const drain = app.queue.drain({ timeout: 200 });
    expect(await drain).toMatchObject({ claimed: 1, done: 0, reason: 'timeout' });
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(await aborted.happened).toMatchObject({ code: 'SHUTTING_DOWN' });
    expect(await app.queue.get(id)).toMatchObject({
      status: 'queued',
      attempts: 0,
      lockedBy: null,
    });
    end.fire();
  });

  it('rescues the jobs of dead workers first', async () => {
    const app = await startWith([note], enqueueOnly);
    const [orphan, spent] = await manyNotes(app, 2);
    await app.sql(
      `insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until)
       values (gen_random_uuid(), 'gone', 'host', 1, '0', '{default}', '{note}', now() - interval '1 s')`,
    );
    await app.sql(
      `update pgqueue.jobs set locked_by = (select id from pgqueue.workers), attempts = 1, lease_no = 1`,
    );
    await app.sql('update pgqueue.jobs set max_attempts = 1 where id = $1', [spent?.id]);
    expect(await app.queue.drain()).toMatchObject({ claimed: 1, done: 1 });
    expect(ran).toMatchObject([{ id: orphan?.id, attempt: 2 }]);
    expect(await app.queue.get(spent?.id ?? '')).toMatchObject({
      status: 'failed',
      lastError: expect.stringContaining('gone'),
    });
    expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
  });

  it('may be called many times at once: each job runs once', async () => {
    const one = await startWith([note], enqueueOnly);
    const two = await startWith([note], { ...enqueueOnly, schema: one.schema });
    await manyNotes(one, 200);
    const drains = [one, two, one, two, one, two].map(({ queue }) => queue.drain());
    const claimed = (await Promise.all(drains)).map((result) => result.claimed);
    expect(claimed.reduce((sum, n) => sum + n, 0)).toBe(200);
    expect(new Set(ran.map(({ id }) => id)).size).toBe(200);
    expect(ran).toHaveLength(200);
  });

  it('may be called by many requests at once, which hold every connection that callers have', async () => {
    const app: TestApp = await startWith(
      [
        on('note', async (_payload, job) => {
          ran.push(job);
          await app.queue.get(job.id); // handlers wait for a callers' connection, the engine never does
        }),
      ],
      { ...enqueueOnly, maxConnections: 2 },
    );
    await manyNotes(app, 100);
    const release = signal();
    const held = Array.from({ length: 2 }, () =>
      app.queue.transaction(async (tx) => {
        await tx.query('select 1');
        await release.happened;
      }),
    );
    const drains = Array.from({ length: 25 }, () => app.queue.drain({ max: 5, timeout: '20s' }));
    await eventually(() => expect(ran.length).toBe(100));
    release.fire();
    await Promise.all(held);
    const results = await Promise.all(drains);
    expect(results.reduce((sum, { done }) => sum + done, 0)).toBe(100);
    expect(results.every(({ claimed }) => claimed <= 5)).toBe(true);
    expect(new Set(ran.map(({ id }) => id)).size).toBe(100);
    expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
  });

  it('runs beside a worker that stays', async () => {
    const app = await startWith([note]);
    await manyNotes(app, 100);
    await app.queue.drain();
    await eventually(() => expect(ran).toHaveLength(100));
    expect(new Set(ran.map(({ id }) => id)).size).toBe(100);
    expect(await app.sql('select id from pgqueue.workers')).toHaveLength(1);
  });

  it('refuses bounds that are none, by name', async () => {
    const app = await startWith([], enqueueOnly);
    const wrong = [
      [{ max: 0 }, 'max'],
      [{ max: 1.5 }, 'max'],
      [{ timeout: 'soon' }, 'timeout'],
      [{ timeout: -1 }, 'timeout'],
      [{ queues: 'mail' }, 'queues'],
      [{ queues: [] }, 'queues'],
      [{ queues: ['mail', ''] }, 'queues'],
      [{ queues: ['nul\0'] }, 'queues'],
      [{ queues: null }, 'queues'],
    ] as const;
    for (const [options, named] of wrong) {
      await expect(app.queue.drain(options as never)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining(named),
      });
    }
  });
});
