import { setTimeout as delay } from 'node:timers/promises';

export interface Patience {
  /** Milliseconds until the last failure is thrown. Default 10 s. */
  readonly timeout?: number;
  /** Milliseconds between two tries. Default 20. */
  readonly interval?: number;
}

/**
 * Tries the assertion until it stops throwing, and answers what it returned. The one place in the tests
 * that waits for a timer: everything else waits for something that happens.
 * @throws what the last try threw, once the time is over
 */
export async function eventually<T>(
  assertion: () => T | Promise<T>,
  { timeout = 10_000, interval = 20 }: Patience = {},
): Promise<T> {
  const deadline = performance.now() + timeout;
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (performance.now() >= deadline) throw error;
    }
    await delay(interval);
  }
}
