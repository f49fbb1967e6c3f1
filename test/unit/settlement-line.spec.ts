import type { ClaimedJob, Settlement } from '../../lib/store/statements/exchange.js';
import { settlementLine } from '../../lib/worker/settlement-line.js';

const job: ClaimedJob = {
  id: '9007199254740993',
  leaseNo: 1,
  queue: 'default',
  kind: 'send_email',
  payload: '{"secret":"in the payload"}',
  priority: 0,
  attempt: 2,
  maxAttempts: 5,
  meta: null,
  createdAt: 0,
};
const error = { name: 'TypeError', message: 'no answer', stack: 'in the stack' };

function line(settlement: { action: Exclude<Settlement['action'], 'done'> } & Partial<Settlement>) {
  return settlementLine(job, { id: job.id, leaseNo: 1, ...settlement });
}

test('an attempt that succeeded is not logged', () => {
  const settlement: Settlement = {
    id: '1',
    leaseNo: 1,
    action: 'done',
    result: undefined,
    keep: true,
  };
  expect(settlementLine(job, settlement)).toBeUndefined();
});

test('a retry is a warning that says when it is due and why', () => {
  expect(line({ action: 'retry', delayMs: 4_250, error })).toEqual({
    level: 'warn',
    text: 'Job 9007199254740993 (send_email), attempt 2 of 5, failed; due again in 4.3 s. TypeError: no answer',
  });
  const runAt = new Date('2031-01-01T00:00:00Z');
  expect(line({ action: 'retry', runAt, error })?.text).toContain(
    'due again at 2031-01-01T00:00:00.000Z',
  );
});

test('a failure for good is an error that says why', () => {
  expect(line({ action: 'fail', error })).toEqual({
    level: 'error',
    text: 'Job 9007199254740993 (send_email), attempt 2 of 5, failed for good. TypeError: no answer',
  });
});

test('a cancelled and a released job are told of, no more', () => {
  expect(line({ action: 'cancel', error })).toMatchObject({ level: 'log' });
  expect(line({ action: 'release' })).toMatchObject({
    level: 'log',
    text: expect.stringContaining('handed back: due again now') as string,
  });
});

test('no line shows the payload or a stack', () => {
  for (const action of ['retry', 'fail', 'cancel', 'release'] as const) {
    expect(line({ action, error })?.text).not.toMatch(/in the payload|in the stack/);
  }
});
