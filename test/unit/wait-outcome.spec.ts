import type { JobRecord, JobStatus } from '../../lib/contracts/job.js';
import { waitOutcome, waitTimedOut } from '../../lib/queue/wait-outcome.js';

function found(status: JobStatus, fields: Partial<JobRecord> = {}, hasResult = true) {
  const job = { id: '7', kind: 'k', status, attempts: 3, lastError: null, result: null, ...fields };
  return { job: job as JobRecord, hasResult };
}

describe('waitOutcome', () => {
  it.each(['queued', 'scheduled', 'waiting', 'running'] as const)('goes on while %s', (status) => {
    expect(waitOutcome('7', true, found(status))).toBeUndefined();
  });

  it.each([
    ['a value', { a: [1] }, true, { a: [1] }],
    ['null, which is a value', null, true, null],
    ['nothing', null, false, undefined],
    [
      'a value that only looks like a marker',
      { notStored: 'x', more: 1 },
      true,
      { notStored: 'x', more: 1 },
    ],
    ['another one', { notStored: 7 }, true, { notStored: 7 }],
  ])('ends with %s that the handler returned', (_, result, hasResult, value) => {
    expect(waitOutcome('7', true, found('done', { result }, hasResult))).toEqual({ value });
  });

  it.each([
    [
      'JOB_FAILED',
      found('failed', { lastError: 'no such user' }),
      /after 3 attempts: no such user/,
    ],
    [
      'JOB_CANCELLED',
      found('cancelled', { lastError: 'not wanted' }),
      /was cancelled: not wanted\./,
    ],
    ['JOB_CANCELLED', found('cancelled'), /was cancelled\./],
    [
      'RESULT_NOT_KEPT',
      found('done', { result: { notStored: 'it is too large' } }),
      /it is too large/,
    ],
  ])('ends with %s, and the job', (code, row, message) => {
    expect(waitOutcome('7', true, row)).toMatchObject({
      error: { code, jobId: '7', job: row.job, message: expect.stringMatching(message) },
    });
  });

  it('tells a job that left no row from one that never was', () => {
    expect(waitOutcome('7', true, undefined)).toMatchObject({
      error: { code: 'RESULT_NOT_KEPT', jobId: '7', job: undefined },
    });
    expect(waitOutcome('7', false, undefined)).toMatchObject({
      error: { code: 'JOB_NOT_FOUND', jobId: '7', job: undefined },
    });
  });
});

test('a wait that is over names the job, the limit, and why it could not look', () => {
  const cause = new Error('no route to host');
  expect(waitTimedOut('7', 1_500, cause)).toMatchObject({
    code: 'WAIT_TIMEOUT',
    jobId: '7',
    cause,
    message: expect.stringContaining('within 1500 ms'),
  });
  expect(waitTimedOut('7', 1_500, undefined)).not.toHaveProperty('cause');
});
