import type { BulkResult } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

let app: TestApp;
let failing = true;

beforeAll(async () => {
  app = await startWith([
    on('send_email', () => {}, { queue: 'mail' }),
    on('report', () => {}, { queue: 'mail' }),
    on(
      'sync',
      () => {
        if (failing) throw new Error('the CRM is down');
      },
      { maxAttempts: 1 },
    ),
  ]);
});
beforeEach(async () => {
  failing = true;
  await app.sql('delete from pgqueue.jobs');
  await app.sql('delete from pgqueue.failed_jobs');
});
afterAll(endApps);

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

describe('a pause', () => {
  it('of a queue stops its jobs until it is resumed, and shows in the list of queues', async () => {
    await app.queue.pause({ queue: 'mail' });
    const { id } = await app.queue.enqueue('send_email', {});
    const { id: other } = await app.queue.enqueue('report', {}, { queue: 'default' });
    await reaches(other, 'done');
    expect(await app.status(id)).toBe('queued');
    const mail = (await app.queue.queues()).find(({ name }) => name === 'mail');
    expect(mail).toEqual({
      name: 'mail',
      pausedAt: expect.any(Date),
      concurrency: null,
      queued: 1,
      scheduled: 0,
      waiting: 0,
      running: 0,
      failed: 0,
    });

    await app.queue.resume({ queue: 'mail' });
    await reaches(id, 'done');
    const names = (await app.queue.queues()).map(({ name, pausedAt }) => [name, pausedAt]);
    expect(names).toEqual([
      ['default', null],
      ['mail', null],
    ]);
  });

  it('of a kind stops it in every queue, and lets the others run', async () => {
    await app.queue.pause({ kind: 'send_email' });
    const { id } = await app.queue.enqueue('send_email', {});
    const { id: elsewhere } = await app.queue.enqueue('send_email', {}, { queue: 'default' });
    const { id: other } = await app.queue.enqueue('report', {});
    await reaches(other, 'done');
    expect(await app.queue.pausedKinds()).toEqual([
      { kind: 'send_email', pausedAt: expect.any(Date) },
    ]);
    expect(await app.queue.counts()).toMatchObject({ running: 0, withoutHandler: 0 });

    await app.queue.resume({ kind: 'send_email' });
    await reaches(id, 'done');
    await reaches(elsewhere, 'done');
    expect(await app.queue.pausedKinds()).toEqual([]);
  });

  it('leaves a drain with nothing to do, instead of waiting', async () => {
    await app.queue.pause({ queue: 'mail' });
    await app.queue.enqueue('send_email', {});
    expect(await app.queue.drain()).toMatchObject({ claimed: 0, reason: 'empty' });
    await app.queue.resume({ queue: 'mail' });
  });

  it.each([
    undefined,
    null,
    {},
    'mail',
    { queue: '' },
    { queue: 'a', kind: 'b' },
    { queue: 'a\0' },
    { kind: 5 },
    { queue: 'a', reason: 'x' },
  ])('of %j is refused', async (target) => {
    for (const call of ['pause', 'resume'] as const) {
      await expect(app.queue[call](target as never)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    }
  });

  it.each([0, -1, 1.5, '3', undefined, 1_000_001])('a resize to %j is refused', async (slots) => {
    const resized = app.queue.resize('mail', slots as number);
    await expect(resized).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('a resize is kept, and can be taken back', async () => {
    const slots = async () =>
      (await app.queue.queues()).find(({ name }) => name === 'mail')?.concurrency;
    await app.queue.resize('mail', 7);
    expect(await slots()).toBe(7);
    await app.queue.resize('mail', null);
    expect(await slots()).toBeNull();
  });
});

describe('clear', () => {
  async function enqueueLater(count: number, queue: string): Promise<string[]> {
    const jobs = Array.from({ length: count }, () => ({
      kind: 'report',
      queue,
      delay: '1h' as const,
    }));
    return (await app.queue.enqueueMany(jobs)).map(({ id }) => id);
  }

  it('counts without doing anything, then cancels what matches in batches, and tells how far it is', async () => {
    const [first = ''] = await enqueueLater(1_100, 'mail');
    const [other = ''] = await enqueueLater(1, 'default');
    expect(await app.queue.clear({ queue: 'mail' }, { dryRun: true })).toEqual({
      matched: 1_100,
      changed: 0,
      skipped: 0,
    });
    expect(await app.status(first)).toBe('scheduled');

    const seen: number[] = [];
    const onProgress = ({ changed }: BulkResult) => seen.push(changed);
    expect(await app.queue.clear({ queue: 'mail' }, { onProgress })).toEqual({
      matched: 1_100,
      changed: 1_100,
      skipped: 0,
    });
    expect(seen).toEqual([500, 1_000, 1_100]);
    expect(await app.status(first)).toBe('cancelled');
    expect(await app.status(other)).toBe('scheduled');
  });

  it('ends where the progress callback throws, and keeps what was done', async () => {
    await enqueueLater(600, 'mail');
    const enough = new Error('enough');
    const cleared = app.queue.clear(
      {},
      {
        onProgress: () => {
          throw enough;
        },
      },
    );
    await expect(cleared).rejects.toBe(enough);
    expect(await app.queue.clear({}, { dryRun: true })).toMatchObject({ matched: 100 });
  });

  it('takes those of a kind, and those created in a time', async () => {
    await enqueueLater(2, 'mail');
    const matching = async (filter: object) =>
      (await app.queue.clear(filter, { dryRun: true })).matched;
    const tomorrow = new Date(Date.now() + 86_400_000);
    expect(await matching({ kind: 'sync' })).toBe(0);
    expect(await matching({ kind: 'report' })).toBe(2);
    expect(await matching({ createdAfter: tomorrow })).toBe(0);
    expect(await matching({ createdBefore: tomorrow })).toBe(2);
  });
});

describe('retryAll', () => {
  it('counts, then retries what matches; whose key is held stays failed', async () => {
    const jobs = [{ kind: 'sync' }, { kind: 'sync' }, { kind: 'sync', dedupe: 'key' }] as const;
    const ids = (await app.queue.enqueueMany(jobs)).map(({ id }) => id);
    for (const id of ids) await reaches(id, 'failed');
    failing = false;
    await app.queue.enqueue('sync', {}, { dedupe: 'key', delay: '1h' });
    const matched = { matched: 3, changed: 0, skipped: 0 };
    expect(await app.queue.retryAll({ kind: 'sync' }, { dryRun: true })).toEqual(matched);
    expect(await app.queue.retryAll({ kind: 'report' })).toEqual({ ...matched, matched: 0 });
    expect(await app.queue.retryAll({})).toEqual({ matched: 3, changed: 2, skipped: 1 });
    await reaches(String(ids[0]), 'done');
    expect(await app.status(String(ids[2]))).toBe('failed');
  });
});

it.each(['clear', 'retryAll'] as const)(
  '%s refuses what is no filter or no option',
  async (method) => {
    const calls: [unknown, object?][] = [
      [undefined],
      [null],
      ['mail'],
      [['7']],
      [{ quue: 'mail' }],
      [{ queue: 5 }],
      [{ createdAfter: 'x', failedAfter: 'x' }],
      [{}, { dryrun: true }],
    ];
    for (const [filter, options] of calls) {
      const call = app.queue[method](filter as object, options);
      await expect(call).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
  },
);
