import { EndRate, prefetchOf, wantOf } from '../../lib/worker/prefetch.js';

describe('how many jobs to hold beyond the free slots', () => {
  test.each<[string, number, number, number]>([
    ['none while no job has ended', 0, 2, 0],
    ['none while no round trip is known', 20, 0, 0],
    ['as many as end in three round trips', 20, 2, 120],
    ['more for a slow network', 20, 10, 600],
    ['none of jobs of ten seconds in 20 slots', 20 / 10_000, 2, 0],
    ['none of jobs of a second in 20 slots on a fast network', 20 / 1_000, 2, 0],
    ['only whole ones', 0.3, 3, 2],
    ['1,000 at most', 500, 50, 1_000],
    ['1,000 at most, whatever is measured', Infinity, 1, 1_000],
  ])('%s', (_, rate, roundTrip, jobs) => {
    expect(prefetchOf(rate, roundTrip)).toBe(jobs);
  });
});

describe('how many jobs to claim', () => {
  test.each<[string, number, number, number]>([
    ['as many as there are free slots', 20, 0, 20],
    ['nothing without a free slot', 0, 0, 0],
    ['those ahead beside the free slots', 5, 80, 85],
    ['what is missing of those ahead', -30, 80, 50],
    ['nothing where enough waits', -80, 80, 0],
    ['nothing where too much waits', -90, 80, 0],
    ['no more than 500 because of those ahead', 20, 1_000, 500],
    ['what is missing of many, by 500', -300, 1_000, 500],
    ['all free slots, however many', 2_000, 0, 2_000],
    ['nothing ahead beside very many free slots', 2_000, 1_000, 2_000],
  ])('%s', (_, free, ahead, want) => {
    expect(wantOf(free, ahead)).toBe(want);
  });
});

describe('the rate at which jobs end', () => {
  /** Measures at each instant after that many jobs have ended. */
  function rates(...steps: readonly (readonly [now: number, ended: number])[]): number[] {
    const rate = new EndRate();
    return steps.map(([now, ended]) => {
      for (let i = 0; i < ended; i++) rate.count();
      return rate.measure(now);
    });
  }

  test('is zero before any time has passed', () => {
    expect(rates([1_000, 0], [1_000, 5])).toEqual([0, 0]);
  });

  test('is jobs a millisecond', () => {
    expect(rates([1_000, 0], [1_002, 40])).toEqual([0, 20]);
  });

  test('follows what changes: each exchange halves what was before it', () => {
    const [, first, second, third] = rates([0, 0], [10, 100], [20, 0], [30, 0]);
    expect(first).toBe(10);
    expect(second).toBeCloseTo(50 / 15);
    expect(third).toBeCloseTo(25 / 17.5);
  });

  test('does not jump with the beat of the exchanges', () => {
    const steps = Array.from({ length: 40 }, (_, i) => [i * 2, i % 2 === 0 ? 0 : 80] as const);
    for (const rate of rates(...steps).slice(20)) {
      expect(rate).toBeGreaterThan(10);
      expect(rate).toBeLessThan(30);
    }
  });
});

describe('in a steady state', () => {
  /** What one group of slots saw. */
  interface Course {
    /** Jobs that ended after the warm-up. */
    readonly ended: number;
    /** Milliseconds after the warm-up in which a slot was empty. */
    readonly empty: number;
    /** Most jobs that waited in memory at once. */
    readonly mostWaiting: number;
    /** Longest time that a job waited in memory, in milliseconds. */
    readonly longestWait: number;
  }

  interface Load {
    readonly slots: number;
    /** How long a job runs, in milliseconds. */
    readonly runs: number;
    readonly roundTrip: number;
    readonly warmUp: number;
    readonly until: number;
  }

  /** How long a worker without a free slot sleeps when no job ends. */
  const POLL_MS = 500;
  const STEP_MS = 0.125;

  /**
   * One exchange after the other against a queue that never ends: each takes a round trip. The next one begins
   * when it has been answered; if there was nothing to ask for, when a job has ended, or at the poll.
   */
  function simulate({ slots, runs, roundTrip, warmUp, until }: Load): Course {
    const rate = new EndRate();
    let running: number[] = []; // when each ends
    let waiting: number[] = []; // since when
    let claim = { answeredAt: 0, jobs: 0 };
    const course = { ended: 0, empty: 0, mostWaiting: 0, longestWait: 0 };

    for (let now = 0; now < until; now += STEP_MS) {
      const ended = running.filter((end) => end <= now).length;
      running = running.filter((end) => end > now);
      for (let i = 0; i < ended; i++) rate.count();
      if (now >= warmUp) course.ended += ended;
      if (now >= claim.answeredAt || (claim.jobs === 0 && ended > 0)) {
        waiting.push(...Array.from({ length: claim.jobs }, () => now));
        const free = slots - running.length - waiting.length;
        const jobs = wantOf(free, prefetchOf(rate.measure(now), roundTrip));
        claim = { answeredAt: now + (jobs > 0 ? roundTrip : POLL_MS), jobs };
      }
      const begun = waiting.splice(0, slots - running.length);
      running.push(...begun.map(() => now + runs));
      for (const since of begun) course.longestWait = Math.max(course.longestWait, now - since);
      course.mostWaiting = Math.max(course.mostWaiting, waiting.length);
      if (now >= warmUp && running.length < slots) course.empty += STEP_MS;
    }
    return course;
  }

  test.each([0.5, 2, 5, 10, 20])(
    '20 slots for jobs of 1 ms are never empty, at a round trip of %d ms',
    (roundTrip) => {
      const course = simulate({ slots: 20, runs: 1, roundTrip, warmUp: 400, until: 800 });
      expect(course.empty).toBe(0);
      expect(course.ended).toBeGreaterThanOrEqual(20 * 399);
      expect(course.mostWaiting).toBeLessThanOrEqual(20 * 1 * 3 * Math.max(roundTrip, 1));
      expect(course.longestWait).toBeLessThanOrEqual(4 * Math.max(roundTrip, 1));
    },
  );

  test.each([0.5, 2, 10])(
    'jobs of 10 s are never claimed before a slot is free, at a round trip of %d ms',
    (roundTrip) => {
      const course = simulate({ slots: 20, runs: 10_000, roundTrip, warmUp: 0, until: 31_000 });
      expect(course.ended).toBe(60);
      expect(course.mostWaiting).toBe(0);
    },
  );
});
