import { Logger } from '@nestjs/common';
import type { JobStore } from '../../lib/store/job-store.js';
import { Scheduler } from '../../lib/worker/scheduler.js';

const { jest } = import.meta;

const DAY = 86_400_000;

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

describe('B49: a slot that is further away than a timer can be', () => {
  it('is slept for in short waits: no loop, no warning, nothing fired', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => void warnings.push(warning);
    process.on('warning', note);
    let looks = 0;
    let fires = 0;
    const store: Partial<JobStore> = {
      declareSchedules: async () => [],
      dueSchedules: async () => {
        looks += 1;
        return { dueAt: 60 * DAY, dueIn: 60 * DAY, due: [] };
      },
      fireSchedules: async () => {
        fires += 1;
        return [];
      },
    };
    const scheduler = new Scheduler(store as JobStore, [], () => {}, new Logger());
    scheduler.begin('worker');
    await jest.advanceTimersByTimeAsync(3_600_000);
    expect(fires).toBe(0);
    expect(looks).toBeGreaterThan(100);
    expect(looks).toBeLessThan(300); // four a minute
    await scheduler.stop();
    expect(jest.getTimerCount()).toBe(0);
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });
});

describe('a look that fails', () => {
  it('is repeated with growing pauses, and what the code declares is said again', async () => {
    const declared: string[] = [];
    let failures = 3;
    const store: Partial<JobStore> = {
      declareSchedules: async (worker) => {
        declared.push(worker);
        if (failures-- > 0) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
        return [];
      },
      dueSchedules: async () => undefined,
    };
    const scheduler = new Scheduler(store as JobStore, [], () => {}, new Logger());
    scheduler.begin('worker');
    await jest.advanceTimersByTimeAsync(10_000);
    expect(declared).toEqual(['worker', 'worker', 'worker', 'worker']);
    scheduler.begin('next life');
    await jest.advanceTimersByTimeAsync(1);
    expect(declared.at(-1)).toBe('next life');
    await scheduler.stop();
  });
});
