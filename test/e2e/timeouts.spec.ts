import type { JobContext } from 'nestjs-pg-queue';
import { endApps, on, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

describe('B22: a handler that never ends', () => {
  it('keeps nobody waiting, fails as a time-out, frees its slot, and is ignored afterwards', async () => {
    const late = signal();
    const hanging: JobContext[] = [];
    const quick: string[] = [];
    const unhandled: unknown[] = [];
    const remember = (reason: unknown) => void unhandled.push(reason);
    process.on('unhandledRejection', remember);
    const app = await startWith(
      [
        on(
          'hangs',
          async (_payload, job) => {
            hanging.push(job);
            await late.happened;
            throw new Error('much too late');
          },
          { timeout: '2s', backoff: { type: 'fixed', delay: '1h' } },
        ),
        on('quick', (_payload, job) => quick.push(job.id)),
      ],
      { worker: { concurrency: 5 } },
    );
    const { id } = await app.queue.enqueue('hangs', {});
    await eventually(() => expect(hanging).toHaveLength(1));
    await app.queue.enqueueMany(Array.from({ length: 20 }, () => ({ kind: 'quick' })));
    await eventually(() => expect(quick).toHaveLength(20));
    expect(hanging[0]?.signal.aborted).toBe(false);

    await eventually(async () => expect(await app.status(id)).toBe('scheduled'));
    expect(hanging[0]?.signal.reason).toMatchObject({ code: 'JOB_TIMEOUT' });
    const job = await app.queue.get(id);
    expect(job).toMatchObject({ attempts: 1, lockedBy: null });
    expect(job?.lastError).toMatch(/timeout of 2000 ms/);
    expect(await app.queue.counts()).toMatchObject({ running: 0 });

    late.fire();
    await app.queue.enqueue('quick', {});
    await eventually(() => expect(quick).toHaveLength(21));
    expect(await app.queue.get(id)).toEqual(job);
    expect(unhandled).toEqual([]);
    process.off('unhandledRejection', remember);
  });

  it('five of them hold five slots until their time is over, and then the queue goes on', async () => {
    const quick: string[] = [];
    const app = await startWith(
      [
        on('hangs', () => new Promise(() => {}), { timeout: 500, maxAttempts: 1 }),
        on('quick', (_payload, job) => quick.push(job.id)),
      ],
      { worker: { concurrency: 5 } },
    );
    const hanging = await app.queue.enqueueMany(
      Array.from({ length: 5 }, () => ({ kind: 'hangs' })),
    );
    await eventually(async () => expect((await app.queue.counts()).running).toBe(5));
    const { id } = await app.queue.enqueue('quick', {});
    expect(quick).toEqual([]);
    await eventually(() => expect(quick).toEqual([id]));
    for (const { id } of hanging) {
      await eventually(async () => expect(await app.status(id)).toBe('failed'));
    }
  });

  it('a handler that ends when its signal is aborted has failed by the time-out, not by what it throws', async () => {
    const polite = on(
      'polite',
      (_payload, job) =>
        new Promise((_, reject) =>
          job.signal.addEventListener('abort', () => reject(new Error('I was stopped'))),
        ),
      { timeout: 50, maxAttempts: 1 },
    );
    const app = await startWith([polite]);
    const { id } = await app.queue.enqueue('polite', {});
    await eventually(async () => expect(await app.status(id)).toBe('failed'));
    expect((await app.queue.get(id))?.lastError).toMatch(/timed out/);
  });
});
