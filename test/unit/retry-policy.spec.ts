import { MAX_DURATION_MS } from '../../lib/contracts/duration.js';
import type { BackoffOptions } from '../../lib/contracts/backoff.js';
import { retryDelay } from '../../lib/worker/retry-policy.js';

const ATTEMPTS = Array.from({ length: 200 }, (_, index) => index + 1);
const DRAWS = [0, 0.25, 0.5, 0.999_999];
const HOUR = 3_600_000;

describe('exponential backoff', () => {
  test.each([{ factor: 2 }, { factor: 10 }])(
    'B56: attempts 1 to 200 with factor $factor wait a finite time within the cap plus jitter',
    ({ factor }) => {
      const backoff: BackoffOptions = {
        type: 'exponential',
        base: '1s',
        max: '1h',
        factor,
        jitter: 0.2,
      };
      for (const attempt of ATTEMPTS) {
        for (const draw of DRAWS) {
          const { ms, fault } = retryDelay(backoff, attempt, new Error('x'), () => draw);
          const full = Math.min(1_000 * factor ** (attempt - 1), HOUR);
          expect(fault).toBeUndefined();
          expect(Number.isFinite(ms)).toBe(true);
          expect(ms).toBeGreaterThanOrEqual(full * 0.9);
          expect(ms).toBeLessThanOrEqual(full * 1.1);
        }
      }
    },
  );

  test('doubles from 2 s to 10 minutes where nothing is said', () => {
    const delays = [1, 2, 3, 20].map(
      (attempt) => retryDelay({ type: 'exponential' }, attempt, undefined, () => 0.5).ms,
    );
    expect(delays).toEqual([2_000, 4_000, 8_000, 600_000]);
  });

  test('never waits less than a millisecond, nor longer than the cap when the product is no number', () => {
    const backoff: BackoffOptions = { type: 'exponential', base: 0, max: '1h', jitter: 0 };
    for (const attempt of [1, 2, 1_000, 5_000]) {
      const { ms } = retryDelay(backoff, attempt, undefined);
      expect(ms).toBeGreaterThanOrEqual(1);
      expect(ms).toBeLessThanOrEqual(HOUR);
    }
  });
});

test('fixed backoff waits the same after every attempt, give or take its jitter', () => {
  for (const attempt of ATTEMPTS) {
    expect(retryDelay({ type: 'fixed', delay: '5s' }, attempt, undefined)).toEqual({ ms: 5_000 });
    const { ms } = retryDelay({ type: 'fixed', delay: '5s', jitter: 1 }, attempt, undefined);
    expect(ms).toBeGreaterThanOrEqual(2_500);
    expect(ms).toBeLessThanOrEqual(7_500);
  }
});

describe('a backoff of the application', () => {
  test('is given the attempt and the error, and may answer milliseconds or text', () => {
    const seen: unknown[] = [];
    const error = new Error('x');
    const backoff = (attempt: number, thrown: unknown) => {
      seen.push(attempt, thrown);
      return '90s' as const;
    };
    expect(retryDelay(backoff, 7, error)).toEqual({ ms: 90_000 });
    expect(seen).toEqual([7, error]);
    expect(retryDelay(() => 0, 1, error)).toEqual({ ms: 1 });
  });

  const faults: [string, () => unknown][] = [
    ['answers NaN', () => Number.NaN],
    ['answers -1', () => -1],
    ['answers Infinity', () => Infinity],
    ['answers more than ten years', () => MAX_DURATION_MS + 1],
    ['answers nothing', () => undefined],
    ['answers null', () => null],
    ['answers text that is no duration', () => 'soon'],
    ['answers a symbol', () => Symbol('s')],
    ['answers an object that can not become text', () => Object.create(null)],
    ['is asynchronous', () => Promise.resolve(1_000)],
    ['is asynchronous and rejects', () => Promise.reject(new Error('rejected'))],
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    [
      'throws undefined',
      () => {
        // oxlint-disable-next-line typescript/only-throw-error -- what JavaScript allows
        throw undefined;
      },
    ],
  ];
  test.each(faults)('B56: that %s is replaced by the default and told of', async (_, backoff) => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const { ms, fault } = retryDelay(backoff as () => number, 2, new Error('x'), () => 0.5);
    await new Promise(setImmediate);
    process.off('unhandledRejection', note);
    expect(ms).toBe(4_000);
    expect(fault).toBeDefined();
    expect(unhandled).toEqual([]);
  });
});
