import { countLong, JobDuration, prefetchOf, wantOf } from '../../lib/worker/prefetch.js';

describe('how many jobs to hold beyond the free slots', () => {
  test.each<[string, number, number | undefined, number, number]>([
    ['none while no job has ended', 20, undefined, 2, 0],
    ['none while no round trip is known', 20, 1, 0, 0],
    ['as many as the slots end in two round trips', 20, 1, 2, 80],
    ['more for a slow network', 20, 1, 10, 400],
    ['none of jobs of ten seconds in 20 slots', 20, 10_000, 2, 0],
    ['none of jobs of ten seconds, on a slow network neither', 20, 10_000, 200, 0],
    ['none of jobs of a second in 20 slots on a fast network', 20, 1_000, 2, 0],
    ['only whole ones', 1, 3, 2, 1],
    ['none where every slot is stuck', 0, 1, 2, 0],
    ['1,000 at most', 500, 1, 50, 1_000],
    ['1,000 at most of jobs that take no time', 20, 0, 1, 1_000],
  ])('%s', (_, slots, duration, roundTrip, jobs) => {
    expect(prefetchOf(slots, duration, roundTrip)).toBe(jobs);
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

describe('how long jobs take', () => {
  function averageOf(...durations: readonly number[]): number | undefined {
    const duration = new JobDuration();
    for (const ms of durations) duration.add(ms);
    return duration.average;
  }

  test('is not known before one has ended', () => {
    expect(averageOf()).toBeUndefined();
  });

  test('is at first what the first one took', () => {
    expect(averageOf(40)).toBe(40);
  });

  test('follows what changes, an eighth with each job', () => {
    expect(averageOf(8, 16)).toBe(9);
    expect(
      averageOf(...Array.from({ length: 60 }, () => 100), ...Array<number>(60).fill(1)),
    ).toBeCloseTo(1, 0);
  });
});

describe('slots that are stuck behind a long job', () => {
  test.each<[string, readonly number[], number | undefined, number, number]>([
    ['there are none without jobs', [], 1, 1_000, 0],
    ['a job of 100 ms is none, however short the others', [0, 0], 1, 100, 0],
    ['older ones are', [0, 0, 50], 1, 110, 2],
    ['where jobs take long they must be ten times as old', [0, 900], 100, 1_000, 0],
    ['and then they are', [0, 900], 100, 1_001, 1],
    ['before any job has ended, too', [0], undefined, 101, 1],
  ])('%s', (_, since, duration, now, count) => {
    expect(countLong(since, duration, now)).toBe(count);
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
    const duration = new JobDuration();
    let running: number[] = []; // when each ends
    let waiting: number[] = []; // since when
    let claim = { answeredAt: 0, jobs: 0 };
    const course = { ended: 0, empty: 0, mostWaiting: 0, longestWait: 0 };

    for (let now = 0; now < until; now += STEP_MS) {
      const ended = running.filter((end) => end <= now).length;
      running = running.filter((end) => end > now);
      for (let i = 0; i < ended; i++) duration.add(runs);
      if (now >= warmUp) course.ended += ended;
      if (now >= claim.answeredAt || (claim.jobs === 0 && ended > 0)) {
        waiting.push(...Array.from({ length: claim.jobs }, () => now));
        const free = slots - running.length - waiting.length;
        const jobs = wantOf(free, prefetchOf(slots, duration.average, roundTrip));
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
      expect(course.mostWaiting).toBeLessThanOrEqual(20 * 1 * 2 * Math.max(roundTrip, 1));
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
