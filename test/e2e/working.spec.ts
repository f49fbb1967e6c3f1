import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

function reaches(app: TestApp, id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

describe('R1: work is stored until a worker is ready', () => {
  it('jobs enqueued while nobody works are run by a worker that comes later', async () => {
    const web = await startWith([], { worker: false });
    const { id } = await web.queue.enqueue('later', { n: 1 });
    await web.close();
    const payloads: unknown[] = [];
    const worker = await startWith([on('later', (payload) => payloads.push(payload))], {
      schema: web.schema,
    });
    await reaches(worker, id, 'done');
    expect(payloads).toEqual([{ n: 1 }]);
  });

  it('many workers never step on each other: 500 jobs and three workers, each job once', async () => {
    const ran: string[] = [];
    const note = on('note', (_payload, job) => ran.push(job.id));
    const first = await startWith([note], { worker: { concurrency: 5 } });
    const same = { schema: first.schema, worker: { concurrency: 5 } };
    await startWith([note], same);
    await startWith([note], same);
    const jobs = Array.from({ length: 500 }, () => ({ kind: 'note' }));
    const ids = (await first.queue.enqueueMany(jobs)).map(({ id }) => id);
    await eventually(() => expect(ran.length).toBeGreaterThanOrEqual(500));
    await eventually(async () => expect((await first.queue.counts()).running).toBe(0));
    expect(ran.toSorted()).toEqual(ids.toSorted());
    const [row] = await first.sql(
      `select count(*)::int as done, count(distinct locked_by)::int as workers, max(attempts) as attempts
         from pgqueue.done_jobs`,
    );
    expect(row).toMatchObject({ done: 500, attempts: 1 });
    expect(row.workers).toBeGreaterThan(1);
  });
});

describe('R2: the queue is a table', () => {
  it('with these columns, in which people read and write', async () => {
    const app = await startWith([], { worker: false });
    const { id } = await app.queue.enqueue('kind', { a: 1 }, { dedupe: 'key', maxAttempts: 3 });
    const [row] = await app.sql(
      `select id::text, kind, payload, status, run_at, attempts, max_attempts, locked_by, last_error,
              dedupe_key, created_at from pgqueue.all_jobs`,
    );
    expect(row).toEqual({
      id,
      kind: 'kind',
      payload: { a: 1 },
      status: 'queued',
      run_at: expect.any(Date),
      attempts: 0,
      max_attempts: 3,
      locked_by: null,
      last_error: null,
      dedupe_key: 'key',
      created_at: expect.any(Date),
    });
    await app.sql('update pgqueue.jobs set priority = 5, run_at = $1 where id = $2', [
      new Date(Date.now() + 3_600_000),
      id,
    ]);
    expect(await app.queue.get(id)).toMatchObject({ priority: 5, status: 'scheduled' });
  });

  it('a job that was put off in SQL and brought forward again runs', async () => {
    const app = await startWith([on('kind', () => {})]);
    const { id } = await app.queue.enqueue('kind', {}, { delay: '1h' });
    await app.sql('update pgqueue.jobs set run_at = now() where id = $1', [id]);
    await reaches(app, id, 'done');
  });
});

describe('R4: claims', () => {
  it('take the oldest due first within a priority, and the smaller priority first', async () => {
    const web = await startWith([], { worker: false });
    const minutesAgo = (n: number) => ({ runAt: new Date(Date.now() - n * 60_000) });
    const results = await web.queue.enqueueMany([
      { kind: 'note', payload: 'late', ...minutesAgo(1) },
      { kind: 'note', payload: 'early', ...minutesAgo(9) },
      { kind: 'note', payload: 'unimportant', priority: 7, ...minutesAgo(99) },
      { kind: 'note', payload: 'urgent', priority: -7 },
      { kind: 'note', payload: 'late too', ...minutesAgo(1) },
    ]);
    expect(results).toHaveLength(5);
    const ran: unknown[] = [];
    const note = on('note', (payload) => ran.push(payload));
    await startWith([note], { schema: web.schema, worker: { concurrency: 1 } });
    await eventually(() =>
      expect(ran).toEqual(['urgent', 'early', 'late', 'late too', 'unimportant']),
    );
  });
});

describe('R7: workers', () => {
  it('run as many jobs at once as their concurrency says, and no more', async () => {
    let running = 0;
    let most = 0;
    const gates: (() => void)[] = [];
    const held = on('held', async () => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => gates.push(resolve));
      running -= 1;
    });
    const app = await startWith([held], { worker: { concurrency: 4 } });
    await app.queue.enqueueMany(Array.from({ length: 10 }, () => ({ kind: 'held' })));
    await eventually(() => expect(running).toBe(4));
    for (let left = 10; left > 0; left--) {
      await eventually(() => expect(gates.length).toBeGreaterThan(0));
      gates.shift()?.();
    }
    await eventually(async () => expect((await app.queue.counts()).running).toBe(0));
    expect(most).toBe(4);
  });

  it('a handler’s own concurrency holds for its kind, beside the others', async () => {
    let running = 0;
    let most = 0;
    const gate = signal();
    const single = on(
      'single',
      async () => {
        most = Math.max(most, ++running);
        await gate.happened;
        running -= 1;
      },
      { concurrency: 1 },
    );
    const others: string[] = [];
    const app = await startWith([single, on('other', (_payload, job) => others.push(job.id))]);
    const singles = await app.queue.enqueueMany(
      [1, 2, 3].map((n) => ({ kind: 'single', payload: n })),
    );
    await app.queue.enqueueMany([1, 2, 3].map((n) => ({ kind: 'other', payload: n })));
    await eventually(() => expect(others).toHaveLength(3));
    expect(running).toBe(1);
    gate.fire();
    for (const { id } of singles) await reaches(app, id, 'done');
    expect(most).toBe(1);
  });

  it('serve the queues they are told to, and no others', async () => {
    const ran: string[] = [];
    const note = on('note', (_payload, job) => ran.push(job.queue));
    const app = await startWith([note], { worker: { queues: ['mail', 'sms'] } });
    await app.queue.enqueueMany(
      ['other', 'mail', 'default', 'sms'].map((queue) => ({ kind: 'note', queue })),
    );
    await eventually(() => expect(ran.toSorted()).toEqual(['mail', 'sms']));
    const left = await app.sql(
      `select queue, attempts from pgqueue.jobs where queue in ('default', 'other') order by queue`,
    );
    expect(left).toEqual([
      { queue: 'default', attempts: 0 },
      { queue: 'other', attempts: 0 },
    ]);
  });

  it('a handler’s queue is served without being named, and enqueue goes to it', async () => {
    const queues: string[] = [];
    const mail = on('mail', (_payload, job) => queues.push(job.queue), { queue: 'slow mail' });
    const app = await startWith([mail]);
    await app.queue.enqueue('mail', {});
    await app.queue.enqueue('mail', {}, { queue: 'default' });
    await eventually(() => expect(queues.toSorted()).toEqual(['default', 'slow mail']));
  });
});
