import type { JobContext, PgQueueError } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';
import { signal, type Signal } from '../support/signal.js';

afterEach(endApps);

function reaches(app: TestApp, id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

/** A handler that runs until its signal is aborted, and then does what `after` says. */
function polite(after: (job: JobContext) => unknown): {
  handler: ReturnType<typeof on>;
  started: Signal;
  abortedAt: Signal<number>;
  codes: string[];
} {
  const started = signal();
  const abortedAt = signal<number>();
  const codes: string[] = [];
  const handler = on('polite', async (_payload, job) => {
    const aborted = new Promise((resolve) => job.signal.addEventListener('abort', resolve));
    started.fire();
    await aborted;
    abortedAt.fire(performance.now());
    codes.push((job.signal.reason as PgQueueError).code);
    return after(job);
  });
  return { handler, started, abortedAt, codes };
}

/** A worker that waits to be rung for has a session that listens. */
async function untilListening(app: TestApp): Promise<void> {
  await eventually(async () => {
    const locks = await app.sql(`
      select 1 from pg_locks
       where locktype = 'advisory' and granted
         and (classid::bigint << 32) | objid::bigint = pgqueue.waiting_key('default')`);
    expect(locks).toHaveLength(1);
  });
}

const rethrow = ({ signal: { reason } }: JobContext) => {
  throw reason;
};

describe('cancelling a job that runs', () => {
  it('aborts its signal within 100 ms, in whatever process it runs, and ends it as cancelled', async () => {
    const delays: number[] = [];
    // Others may have the processor for a while: the quickest of three counts.
    for (let turn = 0; turn < 3; turn += 1) {
      const { handler, started, abortedAt, codes } = polite(rethrow);
      const worker = await startWith([handler], { worker: { heartbeat: '10s' } });
      const web = await startWith([], { schema: worker.schema, worker: false });
      await untilListening(web);
      const { id } = await web.queue.enqueue('polite', {});
      await started.happened;
      const cancelledAt = performance.now();
      expect(await web.queue.cancel(id)).toBe('requested');
      delays.push((await abortedAt.happened) - cancelledAt);
      await reaches(web, id, 'cancelled');
      expect(codes).toEqual(['JOB_CANCELLED']);
      expect(await web.queue.get(id)).toMatchObject({
        attempts: 1,
        lastError: expect.stringContaining('was cancelled while it ran'),
        cancelRequestedAt: null,
      });
      expect(log.text).toContain(`Job ${id} (polite), attempt 1 of 5, cancelled.`);
      await worker.close();
    }
    expect(Math.min(...delays)).toBeLessThan(100);
  });

  it('works without a listener, a little later', async () => {
    const { handler, started, codes } = polite(rethrow);
    const app = await startWith([handler], { listen: false });
    const { id } = await app.queue.enqueue('polite', {});
    await started.happened;
    expect(await app.queue.cancel(id)).toBe('requested');
    await reaches(app, id, 'cancelled');
    expect(codes).toEqual(['JOB_CANCELLED']);
  });

  it('works when the notification was lost: the heartbeat’s look finds the request', async () => {
    const { handler, started } = polite(rethrow);
    const app = await startWith([handler], { worker: { lease: '1s', heartbeat: 300 } });
    const { id } = await app.queue.enqueue('polite', {});
    await started.happened;
    await app.sql('update pgqueue.jobs set cancel_requested_at = now() where id = $1', [id]);
    await reaches(app, id, 'cancelled');
  });

  it.each<[string, (job: JobContext) => unknown]>([
    ['throws something else', () => Promise.reject(new Error('connection reset'))],
    ['returns', () => 'half of it'],
  ])('ends it as cancelled when the handler %s after that', async (_what, after) => {
    const { handler, started } = polite(after);
    const app = await startWith([handler]);
    const { id } = await app.queue.enqueue('polite', {});
    await started.happened;
    expect(await app.queue.cancel(id)).toBe('requested');
    await reaches(app, id, 'cancelled');
    expect((await app.queue.counts()).scheduled).toBe(0);
  });

  it('takes a job that was claimed and waits for a slot before it begins', async () => {
    const ran: string[] = [];
    const single = on(
      'single',
      async (_payload, job) => {
        ran.push(job.id);
        await new Promise((resolve) => job.signal.addEventListener('abort', resolve));
      },
      { queue: 'elsewhere', concurrency: 1 },
    );
    // Two queues are asked at once for a kind that has one turn: what came too much waits in memory.
    const web = await startWith([], { worker: false });
    const jobs = await web.queue.enqueueMany([
      { kind: 'single', queue: 'a' },
      { kind: 'single', queue: 'b' },
    ]);
    const worker = { queues: ['a', 'b'], concurrency: 5 };
    const app = await startWith([single], { schema: web.schema, worker });
    await eventually(async () => expect((await app.queue.counts()).running).toBe(2));
    await eventually(() => expect(ran).toHaveLength(1));
    const waiting = jobs.map(({ id }) => id).find((id) => !ran.includes(id)) ?? '';
    expect(await app.queue.cancel(waiting)).toBe('requested');
    // What is told of this one comes after what is told of the other.
    expect(await app.queue.cancel(ran[0] ?? '')).toBe('requested');
    await reaches(app, waiting, 'cancelled');
    expect(ran).toHaveLength(1);
  });

  it('says finished when the handler was faster', async () => {
    const app = await startWith([on('quick', () => 1)]);
    const { id } = await app.queue.enqueue('quick', {});
    await reaches(app, id, 'done');
    expect(await app.queue.cancel(id)).toBe('finished');
    expect(await app.status(id)).toBe('done');
  });
});

describe('a deadline', () => {
  it('cancels a job that has not begun by then, behind a backlog that nobody works on', async () => {
    const app = await startWith([on('never', () => {})]);
    await eventually(async () => {
      const paused = await app.sql('update pgqueue.queues set paused_at = now() returning name');
      expect(paused).toHaveLength(1);
    });
    const { id } = await app.queue.enqueue('never', {}, { deadline: '100ms' });
    // Two ticks of the housekeeping.
    const patience = { timeout: 25_000 };
    await eventually(async () => expect(await app.status(id)).toBe('cancelled'), patience);
    expect(await app.queue.get(id)).toMatchObject({ attempts: 0, deadline: null });
  });

  it('lets a job run that begins in time, and is shown while it is pending', async () => {
    const gate = signal();
    const app = await startWith([on('held', () => gate.happened)]);
    const deadline = new Date(Date.now() + 3_600_000);
    const { id } = await app.queue.enqueue('held', {}, { deadline });
    await reaches(app, id, 'running');
    expect((await app.queue.get(id))?.deadline).toEqual(deadline);
    gate.fire();
    await reaches(app, id, 'done');
  });

  it.each([
    ['x', 'deadline'],
    [-1, 'deadline'],
    ['2027-02-30T00:00:00Z', 'deadline'],
  ])('%p is refused before any SQL', async (deadline, path) => {
    const app = await startWith([], { worker: false });
    await expect(app.queue.enqueue('k', {}, { deadline })).rejects.toMatchObject({
      code: 'INVALID_JOB',
      path,
    });
  });
});

describe('stillNeeded', () => {
  it('cancels a job instead of calling its handler, and is given the payload and the job', async () => {
    const asked: unknown[] = [];
    const ran: unknown[] = [];
    const notify = on('notify', (payload) => ran.push(payload), {
      stillNeeded: async (payload, job) => {
        asked.push([payload, job.attempt]);
        return (payload as { unread: boolean }).unread;
      },
    });
    const app = await startWith([notify]);
    const { id: read } = await app.queue.enqueue('notify', { unread: false });
    const { id: unread } = await app.queue.enqueue('notify', { unread: true });
    await reaches(app, read, 'cancelled');
    await reaches(app, unread, 'done');
    expect(ran).toEqual([{ unread: true }]);
    expect(asked).toHaveLength(2);
    expect((await app.queue.get(read))?.lastError).toMatch(/not needed any more/);
  });

  it('that throws is a failed attempt, and within the time-out of the handler', async () => {
    let asked = 0;
    const flaky = on('flaky', () => 'ran', {
      backoff: { type: 'fixed', delay: 1 },
      stillNeeded: () => {
        asked += 1;
        if (asked === 1) throw new Error('no answer');
        return true;
      },
    });
    const hangs = on('hangs', () => 'ran', {
      timeout: 50,
      maxAttempts: 1,
      stillNeeded: () => new Promise(() => {}),
    });
    const app = await startWith([flaky, hangs]);
    const { id } = await app.queue.enqueue('flaky', {});
    const { id: hanging } = await app.queue.enqueue('hangs', {});
    await reaches(app, id, 'done');
    expect(await app.queue.get(id)).toMatchObject({ attempts: 2, lastError: 'no answer' });
    await reaches(app, hanging, 'failed');
  });
});
