import { Wakeup } from '../../lib/worker/wakeup.js';

const { jest } = import.meta;

let wakeup: Wakeup;
let woken: number;

/** Begins to wait, and counts when it is over. */
async function sleep(): Promise<void> {
  await wakeup.wait();
  woken += 1;
}

beforeEach(() => {
  jest.useFakeTimers();
  wakeup = new Wakeup();
  woken = 0;
});
afterEach(() => jest.useRealTimers());

test('a ring ends the sleep', async () => {
  const slept = sleep();
  await jest.advanceTimersByTimeAsync(3_600_000);
  expect(woken).toBe(0);
  wakeup.ring();
  await slept;
  expect(jest.getTimerCount()).toBe(0);
});

test('a ring while nobody sleeps is not lost, and ends one sleep only', async () => {
  wakeup.ring();
  wakeup.ring();
  await sleep();
  void sleep();
  await jest.advanceTimersByTimeAsync(60_000);
  expect(woken).toBe(1);
});

test('the earliest time that was said ends the sleep', async () => {
  wakeup.within(500);
  wakeup.within(200);
  wakeup.within(900);
  void sleep();
  await jest.advanceTimersByTimeAsync(199);
  expect(woken).toBe(0);
  await jest.advanceTimersByTimeAsync(1);
  expect(woken).toBe(1);
});

test('a time that is over ends the sleep at once', async () => {
  wakeup.within(0);
  await sleep();
  wakeup.within(-5);
  await sleep();
  expect(woken).toBe(2);
});

test('waking forgets the times that were said', async () => {
  wakeup.within(200);
  wakeup.ring();
  await sleep();
  void sleep();
  await jest.advanceTimersByTimeAsync(60_000);
  expect(woken).toBe(1);
});

test('B49: a time months away neither overflows a timer nor wakes early', async () => {
  const set = jest.spyOn(globalThis, 'setTimeout');
  const days = 60 * 86_400_000;
  wakeup.within(days);
  void sleep();
  await jest.advanceTimersByTimeAsync(days - 1);
  expect(woken).toBe(0);
  await jest.advanceTimersByTimeAsync(1);
  expect(woken).toBe(1);
  for (const [, step] of set.mock.calls) expect(step).toBeLessThan(2 ** 31);
});
