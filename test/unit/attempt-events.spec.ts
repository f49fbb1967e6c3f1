import type { JobEvent, JobEventSink } from '../../lib/contracts/job-events.js';
import type { Settlement } from '../../lib/store/statements/exchange.js';
import { AttemptEvents } from '../../lib/worker/attempt-events.js';
import type { JobRun } from '../../lib/worker/job-run.js';

const NONE = new Set<string>();
const error = { name: 'TypeError', message: 'no', stack: 'at x' };

let events: JobEvent[];
let sink: JobEventSink & { isObserved: boolean };
let attempts: AttemptEvents;
beforeEach(() => {
  events = [];
  sink = { isObserved: true, emit: (event) => events.push(event), emitEnded: () => {} };
  attempts = new AttemptEvents(sink);
});

function run(id = '7', leaseNo = 2): JobRun {
  const job = { id, leaseNo, kind: 'k', queue: 'q', attempt: 2, maxAttempts: 5 };
  return { job } as JobRun;
}

type End = Settlement extends infer S
  ? S extends Settlement
    ? Omit<S, 'id' | 'leaseNo'>
    : never
  : never;

function settlement(end: End, id = '7', leaseNo = 2): Settlement {
  return { id, leaseNo, ...end };
}

const about = { id: '7', kind: 'k', queue: 'q', attempt: 2, maxAttempts: 5 };
const duration = expect.any(Number) as unknown;

test.each<[string, End, object]>([
  ['done', { action: 'done', result: '1', keep: true }, { type: 'completed' }],
  ['retry', { action: 'retry', delayMs: 2_000, error }, { type: 'retried', delay: 2_000, error }],
  ['fail', { action: 'fail', error }, { type: 'failed', error }],
  ['cancel', { action: 'cancel', error }, { type: 'cancelled', reason: 'no' }],
  ['release', { action: 'release' }, { type: 'released', delay: 0 }],
  ['snooze', { action: 'release', delayMs: 50 }, { type: 'released', delay: 50 }],
  ['a past instant', { action: 'release', runAt: new Date(0) }, { type: 'released', delay: 0 }],
])('an attempt that ends in %s is told of when that is stored', (_, end, told) => {
  const ending = run();
  const settled = settlement(end);
  attempts.started(ending);
  expect(events).toEqual([{ type: 'started', ...about }]);
  attempts.ended(ending, settled);
  expect(events).toHaveLength(1);
  attempts.answered([settled], NONE, NONE);
  attempts.answered([settled], NONE, NONE); // an answer that comes twice
  expect(events.slice(1)).toEqual([{ ...about, duration, ...told }]);
});

test('what was lost is told as such', () => {
  const ending = run();
  const settled = settlement({ action: 'done', result: undefined, keep: true });
  attempts.started(ending);
  attempts.ended(ending, settled);
  attempts.answered([settled], NONE, new Set(['7']));
  expect(events.at(-1)).toEqual({ type: 'leaseLost', ...about, duration });
});

test('what somebody has locked is told of when it is stored at last', () => {
  const ending = run();
  const settled = settlement({ action: 'done', result: undefined, keep: true });
  attempts.started(ending);
  attempts.ended(ending, settled);
  attempts.answered([settled], new Set(['7']), NONE);
  expect(events.map(({ type }) => type)).toEqual(['started']);
  attempts.answered([settled], NONE, NONE);
  expect(events.map(({ type }) => type)).toEqual(['started', 'completed']);
});

test('what is told is what was stored, if the database refused the first end', () => {
  const ending = run();
  attempts.ended(ending, settlement({ action: 'done', result: '"\\u0000"', keep: true }));
  const replaced = settlement({ action: 'fail', error });
  attempts.answered([replaced], NONE, NONE);
  expect(events).toEqual([{ type: 'failed', ...about, duration: null, error }]);
});

test('two claims of one job are told apart', () => {
  const [old, young] = [run('7', 2), run('7', 3)];
  const ofOld = settlement({ action: 'done', result: undefined, keep: true }, '7', 2);
  const ofYoung = settlement({ action: 'fail', error }, '7', 3);
  for (const one of [old, young]) attempts.started(one);
  attempts.ended(old, ofOld);
  attempts.ended(young, ofYoung);
  attempts.answered([ofOld], NONE, new Set(['7']));
  attempts.answered([ofYoung], NONE, NONE);
  expect(events.slice(2).map(({ type }) => type)).toEqual(['leaseLost', 'failed']);
});

test('a job that is handed back before it began is not told of', () => {
  const settled = settlement({ action: 'release' });
  attempts.ended(run(), settled);
  attempts.answered([settled], NONE, NONE);
  expect(events).toEqual([]);
});

test('while nobody listens nothing is made or kept', () => {
  sink.isObserved = false;
  const silent = run();
  const settled = settlement({ action: 'done', result: undefined, keep: true });
  attempts.started(silent);
  attempts.ended(silent, settled);
  sink.isObserved = true;
  attempts.answered([settled], NONE, NONE);
  expect(events).toEqual([]);
});

test('somebody who comes while a job runs hears of its end', () => {
  sink.isObserved = false;
  const running = run();
  attempts.started(running);
  sink.isObserved = true;
  const settled = settlement({ action: 'done', result: undefined, keep: true });
  attempts.ended(running, settled);
  attempts.answered([settled], NONE, NONE);
  expect(events).toEqual([{ type: 'completed', ...about, duration: null }]);
});
