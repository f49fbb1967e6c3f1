import type { JobContext } from 'nestjs-pg-queue';
import { endApps, on, sqlIn, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';

afterEach(endApps);

const AT_ONCE = { backoff: { type: 'fixed', delay: 1 } } as const;

describe('R17: at least once, and help for running twice', () => {
  it('the idempotency key is the same for every attempt of a job, and for no other job', async () => {
    const seen = new Map<string, Set<string>>();
    const flaky = (_payload: unknown, job: JobContext) => {
      const keys = seen.get(job.id) ?? new Set();
      seen.set(job.id, keys.add(job.idempotencyKey));
      if (job.attempt < 3) throw new Error('again');
    };
    const app = await startWith([on('one', flaky, AT_ONCE), on('two', flaky, AT_ONCE)]);
    const jobs = await app.queue.enqueueMany([{ kind: 'one' }, { kind: 'one' }, { kind: 'two' }]);
    for (const { id } of jobs) {
      await eventually(async () => expect(await app.status(id)).toBe('done'));
    }
    const keys = [...seen.values()].flatMap((set) => [...set]);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(3);
  });

  it('the key is kept by a retry by hand', async () => {
    const keys: string[] = [];
    const app = await startWith([
      on(
        'doomed',
        (_payload, job) => {
          keys.push(job.idempotencyKey);
          throw new Error('no');
        },
        { maxAttempts: 1 },
      ),
    ]);
    const { id } = await app.queue.enqueue('doomed', {});
    await eventually(async () => expect(await app.status(id)).toBe('failed'));
    await app.queue.retry(id);
    await eventually(() => expect(keys).toHaveLength(2));
    expect(keys[1]).toBe(keys[0]);
  });

  it('a write under the key happens once although the handler ran twice', async () => {
    let schema = '';
    const charge = on(
      'charge',
      async (_payload, job) => {
        await sqlIn(schema, 'insert into pgqueue.charges values ($1) on conflict do nothing', [
          job.idempotencyKey,
        ]);
        if (job.attempt === 1) throw new Error('the answer got lost');
      },
      AT_ONCE,
    );
    const app = await startWith([charge]);
    schema = app.schema;
    await app.sql('create table pgqueue.charges (key text primary key)');
    const { id } = await app.queue.enqueue('charge', {});
    await eventually(async () => expect(await app.status(id)).toBe('done'));
    expect(await app.queue.get(id)).toMatchObject({ attempts: 2 });
    expect(await app.sql('select key from pgqueue.charges')).toHaveLength(1);
  });

  it('a follow-up under a dedupe key is enqueued once although the handler ran twice', async () => {
    const enqueued: string[] = [];
    const order = on(
      'order',
      async (_payload, job) => {
        const { outcome } = await app.queue.enqueue('invoice', {}, { dedupe: job.id, delay: '1h' });
        enqueued.push(outcome);
        if (job.attempt === 1) throw new Error('after the side effect');
      },
      AT_ONCE,
    );
    const app = await startWith([order]);
    const { id } = await app.queue.enqueue('order', {});
    await eventually(async () => expect(await app.status(id)).toBe('done'));
    expect(enqueued).toEqual(['inserted', 'duplicate']);
    expect(await app.queue.counts()).toMatchObject({ scheduled: 1 });
  });

  it('the handler’s writes and its follow-ups are one transaction where it asks for one', async () => {
    const order = on(
      'order',
      async (_payload, job) => {
        await app.queue.transaction(async (tx) => {
          await tx.query(`insert into "${app.schema}".orders values ($1)`, [job.id]);
          await app.queue.enqueue('invoice', { attempt: job.attempt }, { tx, delay: '1h' });
          if (job.attempt === 1) throw new Error('before the commit');
        });
      },
      AT_ONCE,
    );
    const app = await startWith([order]);
    await app.sql('create table pgqueue.orders (id text)');
    const { id } = await app.queue.enqueue('order', {});
    await eventually(async () => expect(await app.status(id)).toBe('done'));
    expect(await app.sql('select id from pgqueue.orders')).toEqual([{ id }]);
    expect(await app.sql(`select payload from pgqueue.jobs where kind = 'invoice'`)).toEqual([
      { payload: { attempt: 2 } },
    ]);
  });
});
