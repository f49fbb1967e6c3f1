import { PgQueueError } from '../../lib/contracts/errors.js';
import type { RegisteredHandler } from '../../lib/contracts/handler.js';
import {
  CancelJob,
  RetryAt,
  SnoozeJob,
  UnrecoverableError,
  VERDICT,
} from '../../lib/contracts/verdicts.js';
import type { ClaimedJob, Settlement } from '../../lib/store/statements/exchange.js';
import { outcomeOf, type AttemptEnd } from '../../lib/worker/outcome.js';

const handler: RegisteredHandler = {
  kind: 'k',
  queue: 'default',
  concurrency: undefined,
  maxAttempts: 5,
  backoff: { type: 'fixed', delay: '5s' },
  timeout: undefined,
  keepDone: true,
  retryable: () => true,
  limits: [],
  origin: 'Class.method',
  run: () => Promise.resolve(),
};

const job: ClaimedJob = {
  id: '7',
  leaseNo: 3,
  queue: 'default',
  kind: 'k',
  payload: '{}',
  priority: 0,
  attempt: 2,
  maxAttempts: 5,
  meta: null,
  createdAt: 0,
};

const lastAttempt: ClaimedJob = { ...job, attempt: 5 };

function settle(
  end: AttemptEnd,
  of: ClaimedJob = job,
  settings: Partial<RegisteredHandler> = {},
): Settlement {
  return outcomeOf(of, { ...handler, ...settings }, end).settlement;
}

const threw = (error: unknown): AttemptEnd => ({ how: 'threw', error });
const record = (message: string) => expect.objectContaining({ message }) as object;

test('a returned value is done, fenced by the lease number of its claim', () => {
  expect(settle({ how: 'returned', value: { sent: 1 } })).toEqual({
    id: '7',
    leaseNo: 3,
    action: 'done',
    result: '{"sent":1}',
    keep: true,
  });
  expect(settle({ how: 'returned', value: undefined }, job, { keepDone: false })).toMatchObject({
    action: 'done',
    result: undefined,
    keep: false,
  });
});

test('a value that can not be stored is done all the same', () => {
  for (const value of [1n, '\0', { toJSON: () => new Proxy({}, hostile) }]) {
    expect(settle({ how: 'returned', value }).action).toBe('done');
  }
});

const hostile: ProxyHandler<object> = {
  get() {
    throw new Error('get');
  },
  getPrototypeOf() {
    throw new Error('getPrototypeOf');
  },
};

describe('a throw', () => {
  test('is a retry after the backoff while attempts are left', () => {
    expect(settle(threw(new Error('x')))).toMatchObject({
      id: '7',
      leaseNo: 3,
      action: 'retry',
      delayMs: 5_000,
      error: record('x'),
    });
  });

  test('is a failure when the attempts are spent, or were lowered below what was spent', () => {
    expect(settle(threw(new Error('x')), lastAttempt)).toMatchObject({ action: 'fail' });
    expect(settle(threw(new Error('x')), { ...job, maxAttempts: 1 })).toMatchObject({
      action: 'fail',
    });
  });

  test('is a failure when the rule says that a retry is not worth it', () => {
    const asked: unknown[] = [];
    const retryable = (error: unknown) => asked.push(error) < 0;
    const error = new Error('x');
    expect(settle(threw(error), job, { retryable })).toMatchObject({ action: 'fail' });
    expect(asked).toEqual([error]);
  });

  test('is a retry when the rule itself throws', () => {
    const retryable = () => {
      throw new Error('the rule is broken');
    };
    expect(settle(threw(new Error('x')), job, { retryable })).toMatchObject({
      action: 'retry',
      error: record('x'),
    });
  });

  test('of anything is an ordinary failed attempt', () => {
    for (const thrown of [undefined, null, '', 0, Symbol('s'), () => {}, new Proxy({}, hostile)]) {
      const { action, error } = settle(threw(thrown)) as { action: string; error?: object };
      expect(action).toBe('retry');
      expect(error).toBeDefined();
    }
  });

  test('B56: tells of a backoff that failed, and is a retry by the default one', () => {
    const backoff = () => Number.NaN;
    const { settlement, backoffFault } = outcomeOf(
      job,
      { ...handler, backoff },
      threw(new Error('x')),
    );
    expect(settlement).toMatchObject({ action: 'retry', error: record('x') });
    expect(backoffFault).toBeInstanceOf(TypeError);
  });
});

describe('a verdict', () => {
  test('UnrecoverableError fails the job although attempts are left', () => {
    expect(settle(threw(new UnrecoverableError('no such user')))).toMatchObject({
      action: 'fail',
      error: record('no such user'),
    });
  });

  test('CancelJob ends the job as cancelled, at the last attempt too', () => {
    expect(settle(threw(new CancelJob('unsubscribed')), lastAttempt)).toMatchObject({
      action: 'cancel',
      error: record('unsubscribed'),
    });
  });

  test('SnoozeJob gives the attempt back, at the last one too, and is no error', () => {
    const settlement = settle(threw(new SnoozeJob('90s')), lastAttempt);
    expect(settlement).toEqual({ id: '7', leaseNo: 3, action: 'release', delayMs: 90_000 });
  });

  test('RetryAt says when, and the rule is not asked', () => {
    const when = new Date('2031-01-01T00:00:00Z');
    const retryable = () => false;
    expect(settle(threw(new RetryAt(when, 'busy')), job, { retryable })).toMatchObject({
      action: 'retry',
      runAt: when,
      error: record('busy'),
    });
    expect(settle(threw(new RetryAt(1_500)))).toMatchObject({ action: 'retry', delayMs: 1_500 });
  });

  test('RetryAt at the last attempt is a failure', () => {
    expect(settle(threw(new RetryAt('1s')), lastAttempt)).toMatchObject({ action: 'fail' });
  });

  test('an instant that PostgreSQL can not read becomes the nearest one that it can', () => {
    for (const [when, instant] of [
      [8.64e15, '9999-12-31T00:00:00.000Z'],
      [-8.64e15, '1970-01-01T00:00:00.000Z'],
    ] as const) {
      const { runAt } = settle(threw(new RetryAt(new Date(when)))) as { runAt: Date };
      expect(runAt.toISOString()).toBe(instant);
    }
  });

  const odd: [string, unknown][] = [
    ['of an action that this version does not know', { action: 'park' }],
    ['without an action', {}],
    ['that is text', 'fail'],
    ['that throws when it is looked at', new Proxy({}, hostile)],
    ['with a time that is no time', { action: 'retry', when: 'soon' }],
    ['with a date that has become invalid', { action: 'snooze', when: new Date(Number.NaN) }],
  ];
  test.each(odd)('%s is an ordinary failed attempt', (_, verdict) => {
    const error = Object.assign(new Error('x'), { [VERDICT]: verdict });
    expect(settle(threw(error))).toMatchObject({ action: 'retry', delayMs: 5_000 });
  });

  test('of another copy of the package counts, since it is recognised by its symbol', () => {
    const error = { [Symbol.for('nestjs-pg-queue.verdict')]: { action: 'fail' } };
    expect(settle(threw(error))).toMatchObject({ action: 'fail' });
  });
});

describe('an end that the handler did not choose', () => {
  test.each(['SHUTTING_DOWN', 'LEASE_LOST'] as const)(
    'a throw after the signal was aborted with %s gives the attempt back',
    (code) => {
      const interrupted = new PgQueueError(code, 'stop');
      const error = new UnrecoverableError('aborted');
      expect(settle({ how: 'threw', error, interrupted }, lastAttempt)).toEqual({
        id: '7',
        leaseNo: 3,
        action: 'release',
      });
    },
  );

  test('a throw after the job was cancelled ends it as cancelled, whatever was thrown', () => {
    const interrupted = new PgQueueError('JOB_CANCELLED', 'Job 7 was cancelled');
    for (const error of [interrupted, new Error('x'), new SnoozeJob('1h')]) {
      expect(settle({ how: 'threw', error, interrupted })).toEqual({
        id: '7',
        leaseNo: 3,
        action: 'cancel',
        error: { name: 'PgQueueError', message: 'Job 7 was cancelled' },
      });
    }
  });

  test('a job that is not needed any more is cancelled', () => {
    expect(settle({ how: 'not needed' }, lastAttempt)).toMatchObject({
      action: 'cancel',
      error: { name: 'NotNeeded' },
    });
  });

  test('an abandoned attempt is given back', () => {
    expect(settle({ how: 'abandoned' }, lastAttempt)).toEqual({
      id: '7',
      leaseNo: 3,
      action: 'release',
    });
  });

  test('B22: a timed out attempt counts as failed', () => {
    const error = new PgQueueError('JOB_TIMEOUT', 'took too long');
    expect(settle({ how: 'timed out', error })).toMatchObject({
      action: 'retry',
      delayMs: 5_000,
      error: record('took too long'),
    });
    expect(settle({ how: 'timed out', error }, lastAttempt)).toMatchObject({ action: 'fail' });
  });
});
