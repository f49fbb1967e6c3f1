import type { RegisteredHandler } from '../../lib/contracts/handler.js';
import type { Lane } from '../../lib/store/statements/exchange.js';
import { prefetchOf } from '../../lib/worker/prefetch.js';
import { Slots } from '../../lib/worker/slots.js';
import { seededRandom } from '../support/random.js';

interface Job {
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
}

const jobOf = (kind: string, queue: string, priority = 0): Job => ({ kind, queue, priority });

const handler = (kind: string, queue: string, concurrency?: number): RegisteredHandler => ({
  kind,
  queue,
  concurrency,
  maxAttempts: 5,
  backoff: { type: 'fixed', delay: 0 },
  timeout: undefined,
  keepDone: true,
  retryable: () => true,
  limits: [],
  origin: `${kind}.run`,
  run: () => Promise.resolve(),
});

function slotsOf(handlers: RegisteredHandler[], queues: Record<string, number>): Slots<Job> {
  const table = new Map(handlers.map((entry) => [entry.kind, entry]));
  return new Slots<Job>(table, new Map(Object.entries(queues)));
}

/** Claims that many jobs like this one, and begins what may run. Answers which of them do. */
function take(slots: Slots<Job>, job: Job, count = 1): boolean[] {
  const jobs = Array.from({ length: count }, () => ({ ...job }));
  for (const claimed of jobs) slots.add(claimed);
  const begun = new Set(slots.begin());
  return jobs.map((claimed) => begun.has(claimed));
}

describe('the kinds of a queue', () => {
  test('share its slots, and ask for what is free', () => {
    const slots = slotsOf([handler('a', 'mail'), handler('b', 'mail')], { mail: 3 });
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 3 }]);
    expect(take(slots, jobOf('a', 'mail'), 2)).toEqual([true, true]);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
    take(slots, jobOf('b', 'mail'));
    expect(slots.lanes()).toEqual([]);
    slots.release(jobOf('a', 'mail'));
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
  });

  test('are asked for in every queue that is served, since a job may be put anywhere', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 2, bulk: 5 });
    expect(slots.lanes()).toEqual([
      { queue: 'mail', want: 2 },
      { queue: 'bulk', want: 5 },
    ]);
  });

  test('are not asked for in a queue that is not served', () => {
    const slots = slotsOf([handler('a', 'elsewhere')], { mail: 2 });
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 2 }]);
  });
});

describe('a claimed job', () => {
  test('has its slot before it begins', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 3 });
    const [first, second] = [jobOf('a', 'mail'), jobOf('a', 'mail')];
    slots.add(first);
    slots.add(second);
    expect(slots.haveWaiting).toBe(true);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
    expect(slots.begin()).toEqual([first, second]);
    expect(slots.haveWaiting).toBe(false);
    expect(slots.begin()).toEqual([]);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
  });

  test('that has no slot waits until one is given back', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 1 });
    const jobs = [jobOf('a', 'mail'), jobOf('a', 'mail')] as const;
    for (const job of jobs) slots.add(job);
    expect(slots.begin()).toEqual([jobs[0]]);
    expect(slots.lanes()).toEqual([]);
    expect(slots.release(jobs[0])).toEqual([jobs[1]]);
    expect(slots.release(jobs[1])).toEqual([]);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
  });

  test('that is more urgent begins before those that wait already', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 1 });
    const [runs, early, late, urgent] = [
      jobOf('a', 'mail'),
      jobOf('a', 'mail', 5),
      jobOf('a', 'mail', 5),
      jobOf('a', 'mail', -1),
    ] as const;
    for (const job of [runs, early, late]) slots.add(job);
    slots.begin();
    slots.add(urgent);
    expect(slots.release(runs)).toEqual([urgent]);
    expect(slots.release(urgent)).toEqual([early]);
    expect(slots.release(early)).toEqual([late]);
  });

  test('that waited for too long can be taken out, and leaves no slot taken', () => {
    const slots = slotsOf([handler('a', 'mail'), handler('b', 'bulk')], { mail: 1, bulk: 1 });
    const [old, young] = [jobOf('b', 'bulk'), jobOf('a', 'mail')];
    take(slots, jobOf('a', 'mail'));
    take(slots, jobOf('b', 'bulk'));
    slots.add(old, 1_000);
    slots.add(young, 2_000);
    expect(slots.claimedBefore(1_000)).toEqual([]);
    expect(slots.claimedBefore(2_000)).toEqual([old]);
    expect(slots.haveWaiting).toBe(true);
    expect(slots.claimedBefore(2_001)).toEqual([young]);
    expect(slots.haveWaiting).toBe(false);
    expect(slots.release(jobOf('b', 'bulk'))).toEqual([]);
    expect(slots.lanes()).toEqual([{ queue: 'bulk', want: 1 }]);
  });

  test('that runs is not taken out, however long it runs', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 1 });
    take(slots, jobOf('a', 'mail'));
    expect(slots.claimedBefore(Infinity)).toEqual([]);
    expect(slots.drainWaiting()).toEqual([]);
    expect(slots.lanes()).toEqual([]);
  });

  test('that has not begun can be drained', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 2 });
    const [runs, first, second] = Array.from({ length: 3 }, () => jobOf('a', 'mail')) as [
      Job,
      Job,
      Job,
    ];
    slots.add(runs);
    slots.begin();
    slots.add(first);
    slots.add(second);
    expect(slots.drainWaiting()).toEqual([first, second]);
    expect(slots.haveWaiting).toBe(false);
    expect(slots.begin()).toEqual([]);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
  });
});

describe('a kind with a concurrency of its own', () => {
  const own = handler('own', 'mail', 2);
  const job = jobOf('own', 'mail');

  test('has slots beside those of its queue', () => {
    const slots = slotsOf([own, handler('a', 'mail')], { mail: 3 });
    const others = { queue: 'mail', except: ['own'] };
    expect(slots.lanes()).toEqual([
      { queue: 'mail', only: ['own'], want: 2 },
      { ...others, want: 3 },
    ]);
    take(slots, job, 2);
    expect(slots.lanes()).toEqual([{ ...others, want: 3 }]);
    take(slots, jobOf('a', 'mail'), 3);
    slots.release(job);
    expect(slots.lanes()).toEqual([{ queue: 'mail', only: ['own'], want: 1 }]);
  });

  test('leaves nothing to ask for in its queue where no other kind is handled', () => {
    const slots = slotsOf([own], { mail: 3 });
    expect(slots.lanes()).toEqual([{ queue: 'mail', only: ['own'], want: 2 }]);
  });

  test('has no slots of its own where its queue is not served', () => {
    const slots = slotsOf([handler('own', 'elsewhere', 2)], { mail: 3 });
    expect(slots.lanes()).toEqual([{ queue: 'mail', only: ['own'], want: 2 }]);
    take(slots, job, 2);
    expect(slots.lanes()).toEqual([]);
  });

  test('counts what was claimed and has not begun', () => {
    const slots = slotsOf([own], { mail: 3 });
    slots.add({ ...job });
    expect(slots.lanes()).toEqual([{ queue: 'mail', only: ['own'], want: 1 }]);
    slots.add({ ...job });
    expect(slots.lanes()).toEqual([]);
  });

  test('takes a slot of another queue for a job from there, and waits for its turn', () => {
    const slots = slotsOf([own], { mail: 3, bulk: 3 });
    expect(take(slots, job, 2)).toEqual([true, true]);
    const late = jobOf('own', 'bulk');
    slots.add(late);
    expect(slots.begin()).toEqual([]);
    expect(slots.release(job)).toEqual([late]);
    expect(slots.release(job)).toEqual([]);
    expect(slots.release(late)).toEqual([]);
  });

  test('is asked for nowhere while its turns are taken or waited for', () => {
    const slots = slotsOf([own, handler('a', 'bulk')], { mail: 3, bulk: 3 });
    take(slots, jobOf('own', 'bulk'), 2);
    expect(slots.lanes()).toEqual([
      { queue: 'mail', except: ['own'], want: 3 },
      { queue: 'bulk', except: ['own'], want: 1 },
    ]);
  });

  test('that waits can be drained, which frees its slots', () => {
    const slots = slotsOf([own], { mail: 3, bulk: 3 });
    take(slots, job, 2);
    const waiting = [jobOf('own', 'bulk'), jobOf('own', 'bulk')];
    for (const late of waiting) slots.add(late);
    expect(slots.begin()).toEqual([]);
    expect(slots.drainWaiting()).toEqual(waiting);
    expect(slots.drainWaiting()).toEqual([]);
    expect(slots.release(job)).toEqual([]);
    expect(slots.lanes()).toContainEqual({ queue: 'bulk', only: ['own'], want: 1 });
  });
});

test('kinds that wait for turns of their own do not fill the slots of a queue that others share', () => {
  const slots = slotsOf([handler('own', 'mail', 2), handler('a', 'mail')], { mail: 3, bulk: 4 });
  expect(slots.lanes().filter(({ queue }) => queue === 'bulk')).toEqual([
    { queue: 'bulk', only: ['own'], want: 2, slots: 'bulk', free: 4 },
    { queue: 'bulk', except: ['own'], want: 4, slots: 'bulk', free: 4 },
  ]);
  take(slots, jobOf('own', 'bulk'), 2);
  expect(slots.lanes().filter(({ queue }) => queue === 'bulk')).toEqual([
    { queue: 'bulk', except: ['own'], want: 2 },
  ]);
});

test('kinds that wait for turns of their own are asked for together, for as many as the least has turns', () => {
  const handlers = [handler('one', 'x', 1), handler('three', 'x', 3), handler('a', 'mail')];
  const slots = slotsOf(handlers, { mail: 5 });
  expect(slots.lanes()[0]).toMatchObject({ only: ['one', 'three'], want: 1 });
  take(slots, jobOf('one', 'mail'));
  expect(slots.lanes()[0]).toMatchObject({ only: ['three'], want: 3 });
});

test('turns that jobs were claimed for are not asked for again before those begin', () => {
  const slots = slotsOf([handler('own', 'mail', 2), handler('a', 'mail')], { bulk: 4, spare: 4 });
  const lanesOfOwn = () => slots.lanes().filter(({ only }) => only?.includes('own'));
  const wants = () => lanesOfOwn().map(({ queue, want }) => [queue, want]);
  const jobs = [jobOf('own', 'bulk'), jobOf('own', 'bulk')] as const;
  expect(wants()).toEqual([
    ['bulk', 2],
    ['spare', 2],
  ]);
  slots.add(jobs[0]);
  expect(wants()).toEqual([
    ['bulk', 1],
    ['spare', 1],
  ]);
  slots.add(jobs[1], 1_000);
  expect(wants()).toEqual([]);
  expect(slots.claimedBefore(1_000)).toEqual([jobs[0]]);
  expect(wants()).toHaveLength(2);
  expect(slots.begin()).toEqual([jobs[1]]);
  slots.add(jobs[0]);
  expect(slots.begin()).toEqual([jobs[0]]);
  expect(wants()).toEqual([]);
  for (const job of jobs) slots.release(job);
  expect(wants()).toEqual([
    ['bulk', 2],
    ['spare', 2],
  ]);
});

test('a job of a queue that is not served is refused, since its slot could never be given back', () => {
  const slots = slotsOf([handler('a', 'mail')], { mail: 1 });
  expect(() => slots.add(jobOf('a', 'bulk'))).toThrow(/bulk/);
});

describe('ahead of the slots', () => {
  /** Jobs that take 2 ms each. */
  function fast(handlers: RegisteredHandler[], job: Job, limit: number): Slots<Job> {
    const slots = slotsOf(handlers, { mail: limit });
    slots.add(job);
    slots.begin(0);
    slots.release(job, 2);
    return slots;
  }
  const a = jobOf('a', 'mail');
  const ahead = prefetchOf(20, 2, 2);

  test('as many are claimed as end in the next round trips', () => {
    const slots = fast([handler('a', 'mail')], a, 20);
    expect(slots.lanes(2, 2)).toEqual([{ queue: 'mail', want: 20 + ahead }]);
  });

  test('nothing is claimed while enough waits, and a job begins as soon as another one ends', () => {
    const slots = fast([handler('a', 'mail')], a, 20);
    slots.lanes(2, 2);
    expect(take(slots, a, 20 + ahead).filter(Boolean)).toHaveLength(20);
    expect(slots.lanes(2, 2)).toEqual([]);
    for (let i = 0; i < ahead; i++) expect(slots.release(a)).toHaveLength(1);
    expect(slots.haveWaiting).toBe(false);
    expect(slots.release(a)).toEqual([]);
  });

  test('nothing is claimed without a round trip', () => {
    const slots = fast([handler('a', 'mail')], a, 20);
    expect(slots.lanes(0, 2)).toEqual([{ queue: 'mail', want: 20 }]);
  });

  test('nothing is claimed after 20 jobs of 10 s that end together, beside a queue that is busy all the time', () => {
    const handlers = [handler('long', 'bulk'), handler('a', 'mail')];
    const slots = slotsOf(handlers, { bulk: 20, mail: 20 });
    const long = Array.from({ length: 20 }, () => jobOf('long', 'bulk'));
    const wants = (now: number) => slots.lanes(2, now).map(({ queue, want }) => [queue, want]);
    for (const job of long) slots.add(job);
    slots.begin(0);
    for (let now = 0; now < 10_000; now += 2) {
      const short = jobOf('a', 'mail');
      slots.add(short, now);
      slots.begin(now);
      slots.release(short, now + 2);
      expect(wants(now + 2)).toEqual([['mail', 20 + ahead]]);
    }
    for (const job of long) slots.release(job, 10_000);
    expect(wants(10_000)).toEqual([
      ['bulk', 20],
      ['mail', 20 + ahead],
    ]);
  });

  test('nothing is claimed for a slot whose job is far longer than the others', () => {
    const slots = fast([handler('a', 'mail')], a, 20);
    slots.add({ ...a }, 2);
    slots.begin(2);
    expect(slots.lanes(2, 102)).toEqual([{ queue: 'mail', want: 19 + prefetchOf(20, 2, 2) }]);
    expect(slots.lanes(2, 103)).toEqual([{ queue: 'mail', want: 19 + prefetchOf(19, 2, 2) }]);
  });

  test('a kind with slots of its own counts by itself', () => {
    const handlers = [handler('own', 'mail', 20), handler('a', 'mail')];
    const slots = fast(handlers, jobOf('own', 'mail'), 5);
    expect(slots.lanes(2, 2)).toEqual([
      { queue: 'mail', only: ['own'], want: 20 + ahead },
      { queue: 'mail', except: ['own'], want: 5 },
    ]);
  });

  test('kinds that wait for turns of their own are not claimed', () => {
    const slots = fast([handler('own', 'x', 2), handler('a', 'mail')], a, 20);
    expect(slots.lanes(2, 2)).toEqual([
      { queue: 'mail', only: ['own'], want: 2, slots: 'mail', free: 20 + ahead },
      { queue: 'mail', except: ['own'], want: 20 + ahead, slots: 'mail', free: 20 + ahead },
    ]);
    take(slots, a, 20);
    expect(slots.lanes(2, 2)).toEqual([{ queue: 'mail', except: ['own'], want: ahead }]);
  });
});

describe('whatever is claimed, run and drained', () => {
  const HANDLERS = [
    handler('a', 'mail'),
    handler('b', 'bulk'),
    handler('own', 'mail', 2),
    handler('single', 'bulk', 1),
    handler('stray', 'elsewhere', 3),
  ];
  const KINDS = HANDLERS.map(({ kind }) => kind);
  const QUEUES = { mail: 4, bulk: 3, spare: 2 };
  const LIMITS: Record<string, number> = { own: 2, single: 1, stray: 3 };

  const ownSlots = ({ kind, queue }: Job) =>
    HANDLERS.some((own) => own.kind === kind && own.queue === queue && own.concurrency);
  const groupOf = (job: Job) => (ownSlots(job) ? `${job.kind} of ${job.queue}` : job.queue);
  const GROUPS: Record<string, number> = { ...QUEUES, 'own of mail': 2, 'single of bulk': 1 };

  const cases = [0, 3].flatMap((roundTrip) => [1, 2, 3, 4, 5].map((seed) => [roundTrip, seed]));
  test.each(cases)(
    'no limit is passed and no slot is lost (round trip of %d ms, seed %d)',
    (roundTrip = 0, seed = 0) => {
      const random = seededRandom(seed);
      const draw = <T>(from: readonly T[]): T | undefined =>
        from[Math.floor(random() * from.length)];
      const slots = slotsOf(HANDLERS, QUEUES);
      const full = slots.lanes();
      const running = new Set<Job>();
      const waiting = new Map<Job, number>();
      const violations: string[] = [];
      let now = 0;

      for (; now < 500; now++) {
        const lane = random() < 0.55 ? draw(slots.lanes(roundTrip, now)) : undefined;
        const chance = random();
        if (lane) claim(lane);
        else if (chance < 0.02) drain();
        else if (chance < 0.04) handBack(now - 20);
        else end();
        if (random() < 0.8) begin(slots.begin());
        violations.push(...beyondLimits());
      }
      expect(violations).toEqual([]);
      begin(slots.begin());
      expect([...idleSlots()]).toEqual([]);
      while (running.size > 0) end();
      drain();
      expect(waiting.size).toBe(0);
      expect(slots.lanes()).toEqual(full);

      /** As an exchange would: up to `want` jobs of any of the kinds. */
      function claim({ queue, only, except = [], want }: Lane): void {
        const kinds = only ?? KINDS.filter((kind) => !except.includes(kind));
        const count = 1 + Math.floor(random() * want);
        for (let i = 0; i < count; i++) {
          const job = jobOf(draw(kinds) as string, queue, Math.floor(random() * 3));
          slots.add(job, now);
          waiting.set(job, now);
        }
      }

      function begin(jobs: readonly Job[]): void {
        for (const job of jobs) {
          if (!waiting.delete(job)) violations.push('a job began that did not wait');
          running.add(job);
        }
      }

      function end(): void {
        const job = draw([...running]);
        if (job === undefined) return;
        running.delete(job);
        begin(slots.release(job));
      }

      function drain(): void {
        expectSame(slots.drainWaiting(), [...waiting.keys()]);
        waiting.clear();
        expect(slots.haveWaiting).toBe(false);
      }

      function handBack(instant: number): void {
        for (const job of slots.claimedBefore(instant)) {
          const since = waiting.get(job) ?? Infinity;
          if (since >= instant) violations.push('a young or unknown job was taken out');
          waiting.delete(job);
        }
      }

      function* beyondLimits(): Generator<string> {
        for (const [kind, limit] of Object.entries(LIMITS)) {
          const mine = [...running].filter((job) => job.kind === kind).length;
          if (mine > limit) yield `${mine} of ${kind} run`;
        }
        for (const [group, limit] of Object.entries(GROUPS)) {
          const mine = [...running].filter((job) => groupOf(job) === group).length;
          if (mine > limit) yield `${mine} of ${group} run`;
          const claimed = [...waiting.keys()].filter((job) => groupOf(job) === group).length;
          if (roundTrip === 0 && mine + claimed > limit) yield `${claimed} wait in ${group}`;
        }
      }

      /** Slots that nobody has, though a job waits that could run. */
      function* idleSlots(): Generator<string> {
        for (const [group, limit] of Object.entries(GROUPS)) {
          const mine = [...running].filter((job) => groupOf(job) === group).length;
          const here = [...waiting.keys()].filter((job) => groupOf(job) === group);
          const ready = here.filter(({ kind }) => hasTurn(kind)).length;
          if (ready > 0 && mine + here.length - ready < limit) yield group;
        }
      }

      function hasTurn(kind: string): boolean {
        const mine = [...running].filter((job) => job.kind === kind).length;
        return mine < (LIMITS[kind] ?? Infinity);
      }
    },
  );
});

describe('the slots of a queue that is resized', () => {
  test('are asked for when there are more, and are not taken from what runs when there are fewer', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 2 });
    take(slots, jobOf('a', 'mail'), 2);
    expect(slots.lanes()).toEqual([]);
    slots.resize('mail', 5);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 3 }]);
    slots.resize('mail', 1);
    expect(slots.lanes()).toEqual([]);
    slots.release(jobOf('a', 'mail'));
    expect(slots.lanes()).toEqual([]);
    slots.release(jobOf('a', 'mail'));
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 1 }]);
  });

  test('of a queue that is not served are nothing to it', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 2 });
    slots.resize('other', 5);
    expect(slots.lanes()).toEqual([{ queue: 'mail', want: 2 }]);
  });
});

describe('jobs that have not begun', () => {
  test('are taken out if they are wanted, wherever they wait, with their slots and turns', () => {
    const slots = slotsOf([handler('a', 'x'), handler('gated', 'elsewhere', 1)], { x: 1, y: 2 });
    const running = jobOf('a', 'x');
    take(slots, running);
    const queued = jobOf('a', 'x');
    const [first, atGate] = [jobOf('gated', 'y'), jobOf('gated', 'y')];
    for (const job of [queued, first, atGate]) slots.add(job);
    expect(slots.begin()).toEqual([first]);
    expect(slots.drainWaiting(({ queue }) => queue === 'z')).toEqual([]);
    expect(slots.drainWaiting(({ queue }) => queue === 'y')).toEqual([atGate]);
    expect(slots.drainWaiting(({ kind }) => kind === 'a')).toEqual([queued]);
    expect(slots.release(first)).toEqual([]);
    expect(slots.lanes()).toEqual([
      { queue: 'y', only: ['gated'], want: 1, slots: 'y', free: 2 },
      { queue: 'y', except: ['gated'], want: 2, slots: 'y', free: 2 },
    ]);
  });
});

function expectSame(some: readonly Job[], others: readonly Job[]): void {
  expect(some.length).toBe(others.length);
  expect(new Set(some)).toEqual(new Set(others));
}
