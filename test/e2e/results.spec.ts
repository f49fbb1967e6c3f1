import { Injectable } from '@nestjs/common';
import {
  CancelJob,
  JobHandler,
  JobWaitError,
  UnrecoverableError,
  type JobKinds,
  type PoolLike,
} from 'nestjs-pg-queue';
import { endApps, on, pool, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'results.render_pdf': { invoiceId: string };
  }
  interface JobResults {
    'results.render_pdf': { url: string };
  }
}

afterEach(endApps);

const double = on('double', (payload) => Number(payload) * 2);
const fast = { type: 'fixed', delay: 10 } as const;

/** An application that only enqueues, beside one that works. */
async function twoProcesses(...handlers: ReturnType<typeof on>[]): Promise<[TestApp, TestApp]> {
  const worker = await startWith(handlers);
  return [await startWith(handlers, { worker: false, schema: worker.schema }), worker];
}

async function codeOf(wait: Promise<unknown>): Promise<unknown> {
  const error: unknown = await wait.then(
    (value) => `resolved to ${String(value)}`,
    (error: unknown) => error,
  );
  return error instanceof JobWaitError ? error.code : error;
}

describe('enqueueAndWait', () => {
  it('resolves to what the handler returned', async () => {
    const app = await startWith([double]);
    expect(await app.queue.enqueueAndWait('double', 21)).toBe(42);
  });

  it('does so across processes, and without a listener', async () => {
    const [web] = await twoProcesses(double);
    expect(await web.queue.enqueueAndWait('double', 21)).toBe(42);
    const settings = { listen: false, worker: { pollInterval: 20 } } as const;
    const polling = await startWith([double], settings);
    const other = { listen: false, worker: false, schema: polling.schema } as const;
    const without = await startWith([], other);
    expect(await without.queue.enqueueAndWait('double', 4)).toBe(8);
  });

  it('resolves to whatever JSON makes of it', async () => {
    const values = ['text', { a: [1, { b: null }] }, null, undefined, false, 0, new Date(0)];
    const app = await startWith([on('echo', (index) => values[index as number])]);
    for (const [index, value] of values.entries()) {
      const expected = value instanceof Date ? value.toJSON() : value;
      expect(await app.queue.enqueueAndWait('echo', index)).toEqual(expected);
    }
  });

  it('waits through failed attempts', async () => {
    const flaky = on(
      'flaky',
      (_payload, job) => {
        if (job.attempt < 3) throw new Error('not yet');
        return job.attempt;
      },
      { backoff: fast },
    );
    const [web] = await twoProcesses(flaky);
    expect(await web.queue.enqueueAndWait('flaky', {}, { timeout: '20s' })).toBe(3);
  });

  it('rejects when the job fails for good, with the job and its last error', async () => {
    const failing = on(
      'failing',
      () => {
        throw new UnrecoverableError('no such user');
      },
      { backoff: fast },
    );
    const [web] = await twoProcesses(failing);
    const error: unknown = await web.queue.enqueueAndWait('failing', { a: 1 }).catch((e) => e);
    expect(error).toBeInstanceOf(JobWaitError);
    expect(error).toMatchObject({
      code: 'JOB_FAILED',
      message: expect.stringContaining('no such user'),
      jobId: expect.stringMatching(/^\d+$/),
      job: {
        kind: 'failing',
        payload: { a: 1 },
        status: 'failed',
        lastError: 'no such user',
        errors: [{ name: 'UnrecoverableError', message: 'no such user', attempt: 1 }],
      },
    });
  });

  it('rejects when the job is cancelled, by its handler or by hand', async () => {
    const unwanted = on('unwanted', () => {
      throw new CancelJob('not wanted any more');
    });
    const app = await startWith([unwanted]);
    await expect(app.queue.enqueueAndWait('unwanted')).rejects.toMatchObject({
      code: 'JOB_CANCELLED',
      job: { status: 'cancelled', lastError: 'not wanted any more' },
    });
    const { id } = await app.queue.enqueue('unwanted', {}, { delay: '1h' });
    const waiting = codeOf(app.queue.waitFor(id));
    expect(await app.queue.cancel(id)).toBe('cancelled');
    expect(await waiting).toBe('JOB_CANCELLED');
  });

  it('ends at its time limit; the job goes on, and can be waited for again', async () => {
    const end = signal<string>();
    const app = await startWith([on('slow', () => end.happened)]);
    const began = performance.now();
    const error = (await app.queue
      .enqueueAndWait('slow', {}, { timeout: 150 })
      .catch((e: unknown) => e)) as JobWaitError;
    expect(error).toMatchObject({ code: 'WAIT_TIMEOUT', job: undefined });
    expect(performance.now() - began).toBeGreaterThanOrEqual(149);
    const again = app.queue.waitFor(error.jobId);
    end.fire('done');
    expect(await again).toBe('done');
  });

  it('with a dedupe key waits for the job that holds it', async () => {
    let runs = 0;
    const end = signal();
    const once = on('once', async () => {
      runs += 1;
      await end.happened;
      return runs;
    });
    const app = await startWith([once]);
    const options = { dedupe: 'one' };
    const { id } = await app.queue.enqueue('once', {}, options);
    const both = [1, 2].map(() => app.queue.enqueueAndWait('once', {}, options));
    // It goes into the same lane behind them, so they have their answers by then.
    expect(await app.queue.enqueue('once', {}, options)).toEqual({ id, outcome: 'duplicate' });
    end.fire();
    expect(await Promise.all(both)).toEqual([1, 1]);
  });

  it('refuses a kind that keeps no history, before any SQL', async () => {
    const silent = on('silent', () => 1, { keepDone: false });
    const kept = on('kept', () => 2, { keepDone: true });
    const app = await startWith([silent]);
    await expect(app.queue.enqueueAndWait('silent')).rejects.toMatchObject({
      code: 'RESULT_NOT_KEPT',
      message: expect.stringContaining(`'silent'`),
    });
    const without = await startWith([double, kept], { keepDone: false });
    expect(await codeOf(without.queue.enqueueAndWait('double', 1))).toMatchObject({
      code: 'RESULT_NOT_KEPT',
    });
    expect(await without.queue.enqueueAndWait('kept')).toBe(2);
    expect(await app.sql('select id from pgqueue.all_jobs')).toEqual([]);
    expect(await without.sql('select kind from pgqueue.all_jobs')).toEqual([{ kind: 'kept' }]);
  });

  it('says so at the end where the handler is another application’s', async () => {
    const worker = await startWith([on('silent', () => 1, { keepDone: false })]);
    const web = await startWith([], { worker: false, schema: worker.schema });
    expect(await codeOf(web.queue.enqueueAndWait('silent'))).toBe('RESULT_NOT_KEPT');
  });

  it('says why a result was not stored', async () => {
    const app = await startWith([on('large', () => 'x'.repeat(100_000))]);
    await expect(app.queue.enqueueAndWait('large')).rejects.toMatchObject({
      code: 'RESULT_NOT_KEPT',
      message: expect.stringContaining('larger than'),
      job: { status: 'done' },
    });
  });

  it('refuses what it can not do, and has enqueued nothing then', async () => {
    const app = await startWith([double], { worker: false });
    const wrong = [
      [{ tx: pool }, /takes no `tx`/],
      [{ timeout: 0 }, /timeout/],
      [{ timeout: 'soon' }, /timeout/],
      [{ tiemout: 5 }, /tiemout/],
      [null, /options/],
    ] as const;
    for (const [options, message] of wrong) {
      await expect(app.queue.enqueueAndWait('double', 1, options as never)).rejects.toThrow(
        message,
      );
    }
    await expect(app.queue.enqueueAndWait('double', 1n)).rejects.toMatchObject({
      code: 'INVALID_JOB',
    });
    expect(await app.sql('select id from pgqueue.all_jobs')).toEqual([]);
  });

  it('holds no connection while it waits', async () => {
    const end = signal();
    const blocked = on('blocked', async (payload) => {
      await end.happened;
      return payload;
    });
    const [, worker] = await twoProcesses(blocked);
    const options = { worker: false, schema: worker.schema, maxConnections: 1 } as const;
    const web = await startWith([blocked], options);
    const numbers = Array.from({ length: 20 }, (_, n) => n);
    const results = numbers.map((n) => web.queue.enqueueAndWait('blocked', n));
    await eventually(async () => expect((await web.queue.counts()).running).toBe(20));
    expect(await web.queue.transaction(async (tx) => (await tx.query('select 1')).rowCount)).toBe(
      1,
    );
    end.fire();
    expect(await Promise.all(results)).toEqual(numbers);
  });

  it('has one statement at a time on its way, however many wait', async () => {
    const end = signal();
    const [, worker] = await twoProcesses(on('blocked', () => end.happened));
    let open = 0;
    let most = 0;
    const counting: PoolLike = {
      options: pool.options,
      connect: async () => {
        const client = await pool.connect();
        open += 1;
        most = Math.max(most, open);
        const release = client.release.bind(client);
        client.release = (error) => {
          open -= 1;
          client.release = release;
          release(error);
        };
        return client;
      },
    };
    const web = await startWith([], { worker: false, schema: worker.schema, pool: counting });
    const jobs = await web.queue.enqueueMany(
      Array.from({ length: 15 }, () => ({ kind: 'blocked' })),
    );
    const results = jobs.map(({ id }) => web.queue.waitFor(id));
    await eventually(async () => expect((await worker.queue.counts()).running).toBe(15));
    end.fire();
    await Promise.all(results);
    expect(most).toBe(1);
  });

  it('ends when the application is closed', async () => {
    const app = await startWith([], { worker: false });
    const waiting = codeOf(app.queue.enqueueAndWait('nobody', {}, { timeout: '1h' }));
    await eventually(async () => expect(await app.queue.counts()).toMatchObject({ queued: 1 }));
    await app.close();
    expect(await waiting).toMatchObject({ code: 'CLOSED' });
  });
});

describe('waitFor', () => {
  it('resolves at once if the job has ended, wherever it ran', async () => {
    const [web, worker] = await twoProcesses(double);
    const { id } = await worker.queue.enqueue('double', 4);
    await eventually(async () => expect(await worker.status(id)).toBe('done'));
    expect(await web.queue.waitFor(id)).toBe(8);
    expect(await worker.queue.waitFor(id)).toBe(8);
    expect(await worker.queue.waitFor(`00${id}`)).toBe(8);
  });

  it('knows a job only after the commit of its transaction', async () => {
    const app = await startWith([double]);
    const { id } = await app.queue.transaction(async (tx) => {
      const job = await app.queue.enqueue('double', 5, { tx });
      expect(await codeOf(app.queue.waitFor(job.id))).toBe('JOB_NOT_FOUND');
      return job;
    });
    expect(await app.queue.waitFor(id)).toBe(10);
  });

  it('refuses ids that are none, and options that it does not know', async () => {
    const app = await startWith([], { worker: false });
    await expect(app.queue.waitFor('seven')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(app.queue.waitFor(7 as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(app.queue.waitFor('7', { limit: 1 } as never)).rejects.toThrow(/limit.*timeout/);
    expect(await codeOf(app.queue.waitFor('9223372036854775807'))).toBe('JOB_NOT_FOUND');
  });

  it('reads the later job where ids were reset', async () => {
    const app = await startWith([double]);
    const { id } = await app.queue.enqueue('double', 1);
    expect(await app.queue.waitFor(id)).toBe(2);
    await app.sql(`alter table pgqueue.jobs alter column id restart`);
    const again = await app.queue.enqueue('double', 50);
    expect(again.id).toBe(id);
    expect(await app.queue.waitFor(id)).toBe(100);
  });
});

test('what docs/results.md shows', async () => {
  const renderer = { render: async (invoiceId: string) => `https://pdf.example/${invoiceId}` };
  @Injectable()
  class Invoices {
    @JobHandler('results.render_pdf', { queue: 'pdf' })
    async render({ invoiceId }: JobKinds['results.render_pdf']) {
      return { url: await renderer.render(invoiceId) };
    }
  }
  const { queue } = await startWith([Invoices]);
  const payload = { invoiceId: '7' };
  const { url } = await queue.enqueueAndWait('results.render_pdf', payload, { timeout: '20s' });
  expect(url).toBe('https://pdf.example/7');

  const { id } = await queue.transaction(async (tx) => {
    await tx.query('select 1');
    return queue.enqueue('results.render_pdf', { invoiceId: '8' }, { tx });
  });
  const second = await queue.waitFor<'results.render_pdf'>(id);
  expect(second.url).toBe('https://pdf.example/8');
});
