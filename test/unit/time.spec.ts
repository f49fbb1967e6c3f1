import { boundedDelay, MAX_TIMER_MS, reconnectDelay } from '../../lib/contracts/delay.js';
import { isDuration, MAX_DURATION_MS, parseDuration } from '../../lib/contracts/duration.js';
import { startTimer } from '../../lib/contracts/timer.js';

const { jest } = import.meta;

const DAY = 86_400_000;

describe('a duration', () => {
  const good: [unknown, number][] = [
    [0, 0],
    [1.5, 1.5],
    [250, 250],
    ['250ms', 250],
    ['0s', 0],
    ['30s', 30_000],
    ['1.5s', 1_500],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['7d', 7 * DAY],
    [MAX_DURATION_MS, MAX_DURATION_MS],
    ['3653d', MAX_DURATION_MS],
  ];
  test.each(good)('%p is %d ms', (value, ms) => {
    expect(parseDuration(value)).toBe(ms);
    expect(isDuration(value)).toBe(true);
  });

  const bad: unknown[] = [
    -1,
    '-1s',
    Number.NaN,
    Infinity,
    '',
    's',
    '30',
    '30 s',
    ' 30s',
    '30S',
    '30sec',
    '1m30s',
    '1e3ms',
    '.5s',
    '5.s',
    '0x10s',
    '٣s',
    '30s\n',
    'Infinityd',
    '3654d',
    MAX_DURATION_MS + 1,
    `${'9'.repeat(400)}d`,
    null,
    undefined,
    true,
    10n,
    [30],
    { valueOf: () => 30 },
    new Date(0),
  ];
  test.each(bad.map((value) => [value]))('%p is none', (value) => {
    expect(parseDuration(value)).toBeUndefined();
    expect(isDuration(value)).toBe(false);
  });
});

test('a bounded delay is finite, at least 1 ms and at most its cap, whatever it is made of', () => {
  const cases: [number, number][] = [
    [5, 5],
    [0, 1],
    [0.2, 1],
    [-5, 1],
    [-Infinity, 1],
    [Infinity, 1_000],
    [Number.NaN, 1_000],
    [1e300, 1_000],
  ];
  for (const [ms, delay] of cases) expect(boundedDelay(ms, 1_000)).toBe(delay);
});

test('reconnecting waits longer with each failure, up to 5 s, and never just as long as others do', () => {
  const longest = [1, 2, 3, 4, 5, 6, 7].map((n) => reconnectDelay(n, () => 1));
  expect(longest).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000]);
  for (const failures of [1, 10, 1_000, 1e9, Infinity]) {
    const [least, most] = [reconnectDelay(failures, () => 0), reconnectDelay(failures, () => 1)];
    expect(least).toBe(most / 2);
    expect(least).toBeGreaterThanOrEqual(50);
    expect(most).toBeLessThanOrEqual(5_000);
  }
});

describe('a timer', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  test.each([60 * DAY, 30 * DAY, 2 ** 31 - 1, 2 ** 31, MAX_TIMER_MS + 1, MAX_TIMER_MS, 5, 0])(
    'B49: of %d ms fires once, at its time',
    (ms) => {
      const set = jest.spyOn(globalThis, 'setTimeout');
      const fire = jest.fn();
      startTimer(ms, fire);
      jest.advanceTimersByTime(Math.max(0, ms - 1));
      expect(fire).toHaveBeenCalledTimes(ms === 0 ? 1 : 0);
      jest.advanceTimersByTime(1);
      expect(fire).toHaveBeenCalledTimes(1);
      jest.advanceTimersByTime(120 * DAY);
      expect(fire).toHaveBeenCalledTimes(1);
      // What makes Node warn of an overflow, and fire at once, is never asked for.
      for (const [, step] of set.mock.calls) expect(step).toBeLessThanOrEqual(MAX_TIMER_MS);
    },
  );

  test('that was stopped does not fire, in its first step or in a later one', () => {
    const fire = jest.fn();
    startTimer(DAY, fire)();
    const stop = startTimer(DAY, fire);
    jest.advanceTimersByTime(DAY / 2);
    stop();
    stop();
    jest.advanceTimersByTime(DAY);
    expect(fire).not.toHaveBeenCalled();
    expect(jest.getTimerCount()).toBe(0);
  });
});

test('B49: sixty days cost no TimeoutOverflowWarning and no early call', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  const fire = jest.fn();
  const stop = startTimer(60 * DAY, fire);
  // One that was set later, and is due sooner, has fired by then.
  await new Promise<void>((resolve) => void startTimer(20, resolve));
  stop();
  process.off('warning', note);
  expect(fire).not.toHaveBeenCalled();
  expect(warnings).toEqual([]);
});
