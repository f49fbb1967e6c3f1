import { CancelJob, PgQueueError, type JobContext } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

const AT_ONCE = { backoff: { type: 'fixed', delay: 1 } } as const;

let app: TestApp;

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

async function start(...handlers: ReturnType<typeof on>[]): Promise<void> {
  app = await startWith(handlers);
  await app.sql('create table pgqueue.credits (job_id text, amount int)');
}

const insert = () => `insert into "${app.schema}".credits values ($1, 5)`;

async function credits(): Promise<string[]> {
  return (await app.sql('select job_id from pgqueue.credits')).map((row) => row.job_id as string);
}

describe('job.transaction', () => {
  it('commits the handler’s writes, its follow-ups and the end of the job together', async () => {
    const answers: unknown[] = [];
    await start(
      on('credit', async (_payload, job) => {
        const balance = await job.transaction(async (tx) => {
          await tx.query(insert(), [job.id]);
          await app.queue.enqueue('receipt', { of: job.id }, { tx, delay: '1h' });
          expect(await credits()).toEqual([]);
          expect(await app.status(job.id)).toBe('running');
          return { balance: 12 };
        });
        answers.push(balance, await app.status(job.id));
        return 'ignored';
      }),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await eventually(() => expect(answers).toEqual([{ balance: 12 }, 'done']));
    expect(await credits()).toEqual([id]);
    expect(await app.queue.get(id)).toMatchObject({ attempts: 1, result: { balance: 12 } });
    expect(await app.queue.counts()).toMatchObject({ scheduled: 1, running: 0 });
  });

  it('leaves neither when the work throws, which is a failed attempt like any other', async () => {
    await start(
      on(
        'credit',
        (_payload, job) =>
          job.transaction(async (tx) => {
            await tx.query(insert(), [job.id]);
            if (job.attempt === 1) throw new Error('before the commit');
          }),
        AT_ONCE,
      ),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'done');
    expect(await credits()).toEqual([id]);
    expect(await app.queue.get(id)).toMatchObject({ attempts: 2, lastError: 'before the commit' });
  });

  it('has decided when it has resolved: a throw after it changes nothing, and is told of', async () => {
    await start(
      on('credit', async (_payload, job) => {
        await job.transaction((tx) => tx.query(insert(), [job.id]));
        throw new Error('the mail server is down');
      }),
      on('next', () => {}),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await eventually(() => expect(log.text).toContain('the mail server is down'));
    expect(await app.queue.get(id)).toMatchObject({ status: 'done', attempts: 1, errors: [] });
    const { id: next } = await app.queue.enqueue('next', {});
    await reaches(next, 'done');
  });

  it('fails when the job was cancelled meanwhile: nothing is written, and the job is cancelled', async () => {
    const written = signal();
    const mayGoOn = signal();
    const codes: string[] = [];
    await start(
      on('credit', async (_payload, job) => {
        try {
          await job.transaction(async (tx) => {
            await tx.query(insert(), [job.id]);
            written.fire();
            await mayGoOn.happened;
          });
        } catch (error) {
          codes.push((error as PgQueueError).code);
        }
      }),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await written.happened;
    expect(await app.queue.cancel(id)).toBe('requested');
    mayGoOn.fire();
    await reaches(id, 'cancelled');
    expect(codes).toEqual(['JOB_CANCELLED']);
    expect(await credits()).toEqual([]);
  });

  it('fails when the job is not this attempt’s any more: nothing is written', async () => {
    const written = signal();
    const mayGoOn = signal();
    const errors: PgQueueError[] = [];
    await start(
      on('credit', async (_payload, job) => {
        if (job.attempt > 1) return;
        await job
          .transaction(async (tx) => {
            await tx.query(insert(), [job.id]);
            written.fire();
            await mayGoOn.happened;
          })
          .catch((error: PgQueueError) => {
            errors.push(error);
            expect(job.signal.reason).toBe(error);
            throw error;
          });
      }),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await written.happened;
    // As a rescue does.
    await app.sql('update pgqueue.jobs set locked_by = null where id = $1', [id]);
    mayGoOn.fire();
    await reaches(id, 'done');
    expect(errors).toMatchObject([{ code: 'LEASE_LOST' }]);
    expect(await credits()).toEqual([]);
  });

  it('is one in an attempt, and can be tried again after it was rolled back', async () => {
    const codes: string[] = [];
    const code = (error: PgQueueError) => void codes.push(error.code);
    await start(
      on('credit', async (_payload, job) => {
        await job.transaction(() => Promise.reject(new Error('a conflict'))).catch(() => {});
        await job.transaction(async (tx) => {
          await job.transaction(async () => {}).catch(code);
          await tx.query(insert(), [job.id]);
        });
        await job.transaction(async () => {}).catch(code);
      }),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'done');
    await eventually(() => expect(codes).toEqual(['SECOND_TRANSACTION', 'SECOND_TRANSACTION']));
    expect(await credits()).toEqual([id]);
  });

  it('that was rolled back leaves the outcome to a handler that hides its error', async () => {
    await start(
      on('credit', async (_payload, job) => {
        // Of something else than its own commit.
        const unknown = new PgQueueError('OUTCOME_UNKNOWN', 'the other database broke');
        await job.transaction(() => Promise.reject(unknown)).catch(() => {});
        return 'made up for it';
      }),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'done');
    expect(await app.queue.get(id)).toMatchObject({ attempts: 1, result: 'made up for it' });
  });

  it('gives its slot to the next job, without a ring or a poll', async () => {
    const gate = signal();
    const credit = on('credit', async (_payload, job) => {
      await gate.happened;
      await job.transaction(async () => {});
    });
    app = await startWith([credit], { worker: { concurrency: 1, pollInterval: '1h' } });
    const jobs = await app.queue.enqueueMany([1, 2, 3].map(() => ({ kind: 'credit' })));
    await eventually(async () => expect((await app.queue.counts()).running).toBe(1));
    gate.fire();
    for (const { id } of jobs) await reaches(id, 'done');
  });

  it('tells of a failed statement that the work hides', async () => {
    await start(
      on(
        'credit',
        (_payload, job) => job.transaction((tx) => tx.query('select 1 / 0').catch(() => {})),
        { maxAttempts: 1 },
      ),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'failed');
    expect((await app.queue.get(id))?.lastError).toContain('a statement in it had failed');
  });

  it('does not begin in an attempt whose time is over', async () => {
    const codes: string[] = [];
    await start(
      on(
        'credit',
        async (_payload, job) => {
          await new Promise((resolve) => job.signal.addEventListener('abort', resolve));
          const late = job.transaction((tx) => tx.query(insert(), [job.id]));
          await late.catch((error: PgQueueError) => void codes.push(error.code));
        },
        { timeout: 50, maxAttempts: 1 },
      ),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'failed');
    await eventually(() => expect(codes).toEqual(['JOB_TIMEOUT']));
    expect(await credits()).toEqual([]);
  });
});

describe('a handler with transactional: true', () => {
  it('runs in the transaction that completes its job, with the result that it returns', async () => {
    await start(
      on(
        'credit',
        async (_payload, job) => {
          await job.tx.query(insert(), [job.id]);
          expect(await credits()).toEqual([]);
          if (job.attempt === 1) throw new Error('again');
          return { attempt: job.attempt };
        },
        { ...AT_ONCE, transactional: true },
      ),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'done');
    expect(await credits()).toEqual([id]);
    expect(await app.queue.get(id)).toMatchObject({ attempts: 2, result: { attempt: 2 } });
  });

  it('rolls back with a verdict, which counts', async () => {
    await start(
      on(
        'credit',
        async (_payload, job) => {
          await job.tx.query(insert(), [job.id]);
          throw new CancelJob('not wanted any more');
        },
        { transactional: true },
      ),
    );
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'cancelled');
    expect(await credits()).toEqual([]);
  });

  it('is told of at start if it could take all connections that enqueues need', async () => {
    const credit = (concurrency: number) =>
      on('credit', () => {}, { transactional: true, concurrency });
    await startWith([credit(2)], { maxConnections: 3 });
    expect(log.text).not.toContain('maxConnections');
    await startWith([credit(3)], { maxConnections: 3 });
    expect(log.text).toContain('can hold 3 connections at once, but `maxConnections` is 3');
  });

  it('in any other handler job.tx says what to do', async () => {
    const read = (_payload: unknown, job: JobContext) => void job.tx;
    await start(on('credit', read, { maxAttempts: 1 }));
    const { id } = await app.queue.enqueue('credit', {});
    await reaches(id, 'failed');
    expect((await app.queue.get(id))?.lastError).toContain('`transactional: true`');
  });
});
