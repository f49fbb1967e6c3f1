import {
  CancelJob,
  RetryAt,
  SnoozeJob,
  UnrecoverableError,
  type JobContext,
} from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';

const AT_ONCE = { type: 'fixed', delay: 1 } as const;

let app: TestApp;
/** What the handler of `once` throws at its first attempt. */
let thrown: unknown;
let attempts: { kind: string; attempt: number }[] = [];

function failsOnce(_payload: unknown, job: JobContext): void {
  attempts.push({ kind: job.kind, attempt: job.attempt });
  if (job.attempt === 1) throw thrown;
}

beforeAll(async () => {
  app = await startWith([
    on('once', failsOnce, { backoff: AT_ONCE }),
    on('default', failsOnce),
    on('flaky', failsOnce, { backoff: { type: 'exponential', base: '1h', max: '3h', jitter: 0 } }),
    on('own', failsOnce, { backoff: (attempt) => attempt * 3_600_000 }),
    on('broken', failsOnce, {
      backoff: () => {
        throw new Error('the backoff is broken');
      },
    }),
    on('picky', failsOnce, { backoff: AT_ONCE, retryable: () => false }),
    on('hopeless', () => Promise.reject(new Error('never')), { backoff: AT_ONCE, maxAttempts: 3 }),
  ]);
});
beforeEach(() => {
  attempts = [];
});
afterAll(endApps);

async function run(kind: string, error: unknown): Promise<string> {
  thrown = error;
  return (await app.queue.enqueue(kind, {})).id;
}

function settled(id: string, status: string) {
  return eventually(async () => {
    const job = await app.queue.get(id);
    expect(job?.status).toBe(status);
    return job!;
  });
}

/** Seconds until the job is due again, from when its attempt failed, by the database's clock. */
async function delayOf(id: string): Promise<number> {
  const [row] = await app.sql(
    `select extract(epoch from run_at - (errors -> -1 ->> 'at')::timestamptz)::float8 as delay
       from pgqueue.jobs where id = $1`,
    [id],
  );
  return row.delay as number;
}

describe('R8: retries', () => {
  it('a failed attempt is repeated until one succeeds', async () => {
    const id = await run('once', new Error('not yet'));
    const job = await settled(id, 'done');
    expect(attempts.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(job).toMatchObject({ attempts: 2, lastError: 'not yet' });
    expect(job.errors).toMatchObject([{ attempt: 1, name: 'Error', message: 'not yet' }]);
    expect(Date.parse(job.errors[0]?.at ?? '')).not.toBeNaN();
    expect(job.errors[0]?.stack).toContain('retries.spec.ts');
  });

  it('by default the second attempt comes after about 2 s, a quarter more or less', async () => {
    const id = await run('default', new Error('not yet'));
    const job = await settled(id, 'scheduled');
    expect(job).toMatchObject({ attempts: 1, maxAttempts: 5, lockedBy: null });
    const delay = await delayOf(id);
    expect(delay).toBeGreaterThan(1.4);
    expect(delay).toBeLessThan(2.6);
  });

  it.each([
    [0, 1],
    [1, 2],
    [2, 3],
    [5, 3],
  ])('after %i earlier attempts the delay is %i h: doubled, and capped', async (earlier, hours) => {
    const handled = { backoff: { type: 'exponential', base: '1h', max: '3h', jitter: 0 } } as const;
    const kind = `growing ${earlier}`;
    const failing = on(kind, () => Promise.reject(new Error('no')), { ...handled, maxAttempts: 9 });
    const other = await startWith([failing]);
    await other.sql(`insert into pgqueue.jobs (kind, attempts, max_attempts) values ($1, $2, 9)`, [
      kind,
      earlier,
    ]);
    const [row] = await eventually(async () => {
      const rows = await other.sql(
        `select extract(epoch from run_at - (errors -> -1 ->> 'at')::timestamptz)::float8 as delay
           from pgqueue.jobs where waits_for = 'time'`,
      );
      expect(rows).toHaveLength(1);
      return rows;
    });
    expect(row.delay).toBeGreaterThan(hours * 3_600 - 5);
    expect(row.delay).toBeLessThan(hours * 3_600 + 5);
    await other.close();
  });

  it('a backoff of one’s own decides', async () => {
    const id = await run('own', new Error('not yet'));
    await settled(id, 'scheduled');
    expect(await delayOf(id)).toBeCloseTo(3_600, -1);
  });

  it('a backoff that throws is replaced by the default, and the log says where', async () => {
    const id = await run('broken', new Error('not yet'));
    await settled(id, 'scheduled');
    const delay = await delayOf(id);
    expect(delay).toBeGreaterThan(1.4);
    expect(delay).toBeLessThan(2.6);
    expect(log.text).toMatch(/backoff of Handler\.handle failed \(the backoff is broken\)/);
  });

  it.each([
    ['a validation error', Object.assign(new Error('bad'), { name: 'ValidationError' })],
    ['HTTP 400', Object.assign(new Error('bad'), { status: 400 })],
    [
      'HTTP 404 of an axios-like client',
      Object.assign(new Error('bad'), { response: { status: 404 } }),
    ],
    ['HTTP 422', Object.assign(new Error('bad'), { statusCode: 422 })],
  ])('%s is not repeated', async (_what, error) => {
    const id = await run('once', error);
    expect(await settled(id, 'failed')).toMatchObject({ attempts: 1, lastError: 'bad' });
  });

  it.each([
    ['HTTP 408', { status: 408 }],
    ['HTTP 425', { status: 425 }],
    ['HTTP 429', { status: 429 }],
    ['HTTP 500', { status: 500 }],
    ['HTTP 503', { response: { status: 503 } }],
    ['a broken connection', { code: 'ECONNRESET' }],
  ])('%s is repeated', async (_what, properties) => {
    const id = await run('once', Object.assign(new Error('for now'), properties));
    expect(await settled(id, 'done')).toMatchObject({ attempts: 2 });
  });

  it('a rule of the handler decides before the default one', async () => {
    const id = await run('picky', new Error('for now'));
    expect(await settled(id, 'failed')).toMatchObject({ attempts: 1 });
  });

  it('the last attempt that fails ends the job as failed, with every error', async () => {
    const { id } = await app.queue.enqueue('hopeless', {});
    const job = await settled(id, 'failed');
    expect(job).toMatchObject({ attempts: 3, maxAttempts: 3, lastError: 'never' });
    expect(job.errors.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(job.finishedAt).toBeInstanceOf(Date);
  });

  it('maxAttempts of the enqueue goes before that of the handler', async () => {
    const { id } = await app.queue.enqueue('hopeless', {}, { maxAttempts: 1 });
    expect(await settled(id, 'failed')).toMatchObject({ attempts: 1, maxAttempts: 1 });
  });
});

describe('R8: what a handler can say', () => {
  it('UnrecoverableError: no retry will help', async () => {
    const id = await run('once', new UnrecoverableError('the account is closed'));
    expect(await settled(id, 'failed')).toMatchObject({
      attempts: 1,
      lastError: 'the account is closed',
    });
  });

  it('CancelJob: the job is not wanted any more, and its message is kept', async () => {
    const id = await run('once', new CancelJob('the user is gone'));
    expect(await settled(id, 'cancelled')).toMatchObject({
      attempts: 1,
      lastError: 'the user is gone',
    });
  });

  it('RetryAt with an instant: due then, and the attempt counts', async () => {
    const when = new Date(Date.now() + 3_600_000);
    const id = await run('once', new RetryAt(when, 'the API is closed'));
    const job = await settled(id, 'scheduled');
    expect(job).toMatchObject({ attempts: 1, lastError: 'the API is closed', runAt: when });
  });

  it('RetryAt with a duration: due after it', async () => {
    const id = await run('once', new RetryAt('2h'));
    await settled(id, 'scheduled');
    expect(await delayOf(id)).toBeCloseTo(7_200, -1);
  });

  it('RetryAt at the last attempt ends the job as failed', async () => {
    thrown = new RetryAt('2h');
    const { id } = await app.queue.enqueue('once', {}, { maxAttempts: 1 });
    expect(await settled(id, 'failed')).toMatchObject({ attempts: 1 });
  });

  it('SnoozeJob: due later, and the attempt is given back', async () => {
    const when = new Date(Date.now() + 3_600_000);
    const id = await run('once', new SnoozeJob(when));
    expect(await settled(id, 'scheduled')).toMatchObject({
      attempts: 0,
      runAt: when,
      lastError: null,
    });
  });

  it('SnoozeJob even at the last attempt', async () => {
    thrown = new SnoozeJob('1h');
    const { id } = await app.queue.enqueue('once', {}, { maxAttempts: 1 });
    expect(await settled(id, 'scheduled')).toMatchObject({ attempts: 0 });
  });
});
