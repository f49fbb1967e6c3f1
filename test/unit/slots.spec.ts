import type { RegisteredHandler } from '../../lib/contracts/handler.js';
import type { Lane } from '../../lib/store/statements/exchange.js';
import { Slots } from '../../lib/worker/slots.js';
import { seededRandom } from '../support/random.js';

interface Job {
  readonly queue: string;
  readonly kind: string;
}

const handler = (kind: string, queue: string, concurrency?: number): RegisteredHandler => ({
  kind,
  queue,
  concurrency,
  maxAttempts: 5,
  backoff: { type: 'fixed', delay: 0 },
  timeout: undefined,
  keepDone: true,
  retryable: () => true,
  origin: `${kind}.run`,
  run: () => Promise.resolve(),
});

function slotsOf(handlers: RegisteredHandler[], queues: Record<string, number>): Slots<Job> {
  const table = new Map(handlers.map((entry) => [entry.kind, entry]));
  return new Slots<Job>(table, new Map(Object.entries(queues)));
}

/** Takes a slot for that many jobs, answers which of them run. */
function take(slots: Slots<Job>, job: Job, count = 1): boolean[] {
  return Array.from({ length: count }, () => slots.take({ ...job }));
}

describe('the kinds of a queue', () => {
  test('share its slots, and ask for what is free', () => {
    const slots = slotsOf([handler('a', 'mail'), handler('b', 'mail')], { mail: 3 });
    expect(slots.lanes()).toEqual([{ queue: 'mail', kinds: ['a', 'b'], want: 3 }]);
    expect(take(slots, { queue: 'mail', kind: 'a' }, 2)).toEqual([true, true]);
    expect(slots.lanes()).toEqual([{ queue: 'mail', kinds: ['a', 'b'], want: 1 }]);
    take(slots, { queue: 'mail', kind: 'b' });
    expect(slots.lanes()).toEqual([]);
    slots.release({ queue: 'mail', kind: 'a' });
    expect(slots.lanes()).toEqual([{ queue: 'mail', kinds: ['a', 'b'], want: 1 }]);
  });

  test('are asked for in every queue that is served, since a job may be put anywhere', () => {
    const slots = slotsOf([handler('a', 'mail')], { mail: 2, bulk: 5 });
    expect(slots.lanes()).toEqual([
      { queue: 'mail', kinds: ['a'], want: 2 },
      { queue: 'bulk', kinds: ['a'], want: 5 },
    ]);
  });

  test('are not asked for in a queue that is not served', () => {
    const slots = slotsOf([handler('a', 'elsewhere')], { mail: 2 });
    expect(slots.serves('mail')).toBe(true);
    expect(slots.serves('elsewhere')).toBe(false);
    expect(slots.lanes()).toEqual([{ queue: 'mail', kinds: ['a'], want: 2 }]);
  });
});

describe('a kind with a concurrency of its own', () => {
  const own = handler('own', 'mail', 2);
  const job = { queue: 'mail', kind: 'own' };

  test('has slots beside those of its queue', () => {
    const slots = slotsOf([own, handler('a', 'mail')], { mail: 3 });
    expect(slots.lanes()).toEqual([
      { queue: 'mail', kinds: ['own'], want: 2 },
      { queue: 'mail', kinds: ['a'], want: 3 },
    ]);
    take(slots, job, 2);
    expect(slots.lanes()).toEqual([{ queue: 'mail', kinds: ['a'], want: 3 }]);
    take(slots, { queue: 'mail', kind: 'a' }, 3);
    slots.release(job);
    expect(slots.lanes()).toEqual([{ queue: 'mail', kinds: ['own'], want: 1 }]);
  });

  test('takes a slot of another queue for a job from there, and waits for its turn', () => {
    const slots = slotsOf([own], { mail: 3, bulk: 3 });
    expect(take(slots, job, 2)).toEqual([true, true]);
    const late = { queue: 'bulk', kind: 'own' };
    expect(slots.take(late)).toBe(false);
    expect(slots.release(job)).toBe(late);
    expect(slots.release(job)).toBeUndefined();
    expect(slots.release(late)).toBeUndefined();
  });

  test('is asked for nowhere while its turns are taken or waited for', () => {
    const slots = slotsOf([own, handler('a', 'bulk')], { mail: 3, bulk: 3 });
    take(slots, { queue: 'bulk', kind: 'own' }, 2);
    expect(slots.lanes()).toEqual([
      { queue: 'mail', kinds: ['a'], want: 3 },
      { queue: 'bulk', kinds: ['a'], want: 1 },
    ]);
  });

  test('that waits can be drained, which frees its slots', () => {
    const slots = slotsOf([own], { mail: 3, bulk: 3 });
    take(slots, job, 2);
    const waiting = [
      { queue: 'bulk', kind: 'own' },
      { queue: 'bulk', kind: 'own' },
    ];
    for (const late of waiting) slots.take(late);
    expect(slots.drainWaiting()).toEqual(waiting);
    expect(slots.drainWaiting()).toEqual([]);
    expect(slots.release(job)).toBeUndefined();
    expect(slots.lanes()).toContainEqual({ queue: 'bulk', kinds: ['own'], want: 1 });
  });
});

test('kinds that wait for turns of their own do not fill the slots of a queue that others share', () => {
  const slots = slotsOf([handler('own', 'mail', 2), handler('a', 'mail')], { mail: 3, bulk: 4 });
  expect(slots.lanes().filter(({ queue }) => queue === 'bulk')).toEqual([
    { queue: 'bulk', kinds: ['own'], want: 2, slots: 'bulk', free: 4 },
    { queue: 'bulk', kinds: ['a'], want: 4, slots: 'bulk', free: 4 },
  ]);
  slots.take({ queue: 'bulk', kind: 'own' });
  slots.take({ queue: 'bulk', kind: 'own' });
  expect(slots.lanes().filter(({ queue }) => queue === 'bulk')).toEqual([
    { queue: 'bulk', kinds: ['a'], want: 2 },
  ]);
});

test('a job of a queue that is not served is refused, since its slot could never be given back', () => {
  const slots = slotsOf([handler('a', 'mail')], { mail: 1 });
  expect(() => slots.take({ queue: 'bulk', kind: 'a' })).toThrow(/bulk/);
});

describe('whatever is claimed, run and drained', () => {
  const HANDLERS = [
    handler('a', 'mail'),
    handler('b', 'bulk'),
    handler('own', 'mail', 2),
    handler('single', 'bulk', 1),
    handler('stray', 'elsewhere', 3),
  ];
  const QUEUES = { mail: 4, bulk: 3, spare: 2 };
  const LIMITS = { own: 2, single: 1, stray: 3 };

  test.each([1, 2, 3, 4, 5])('no limit is passed and no slot is lost (seed %d)', (seed) => {
    const random = seededRandom(seed);
    const draw = <T>(from: readonly T[]): T | undefined => from[Math.floor(random() * from.length)];
    const slots = slotsOf(HANDLERS, QUEUES);
    const full = slots.lanes();
    const running: Job[] = [];
    const waiting: Job[] = [];
    const violations: string[] = [];

    for (let step = 0; step < 500; step++) {
      const lane = draw(slots.lanes());
      if (lane && random() < 0.55) claim(lane);
      else if (random() < 0.02) expectSame(slots.drainWaiting(), waiting.splice(0));
      else end();
      violations.push(...beyondLimits());
    }
    expect(violations).toEqual([]);
    while (running.length > 0) end();
    expectSame(slots.drainWaiting(), waiting);
    expect(slots.lanes()).toEqual(full);

    /** As an exchange would: up to `want` jobs of any of the kinds. */
    function claim({ queue, kinds, want }: Lane): void {
      const count = 1 + Math.floor(random() * want);
      for (let i = 0; i < count; i++) {
        const job = { queue, kind: draw(kinds) as string };
        (slots.take(job) ? running : waiting).push(job);
      }
    }

    function end(): void {
      const [job] = running.splice(Math.floor(random() * running.length), 1);
      if (job === undefined) return;
      const next = slots.release(job);
      if (next === undefined) return;
      expect(next.kind).toBe(job.kind);
      waiting.splice(waiting.indexOf(next), 1);
      running.push(next);
    }

    function* beyondLimits(): Generator<string> {
      for (const [kind, limit] of Object.entries(LIMITS)) {
        const mine = running.filter((job) => job.kind === kind).length;
        const someWait = waiting.some((job) => job.kind === kind);
        if (mine > limit) yield `${mine} of ${kind} run`;
        if (someWait && mine < limit) yield `${kind} waits beside a free turn`;
      }
      for (const [queue, limit] of Object.entries(QUEUES)) {
        const own = HANDLERS.filter((h) => h.queue === queue && h.concurrency !== undefined);
        const shared = [...running, ...waiting].filter(
          (job) => job.queue === queue && !own.some(({ kind }) => kind === job.kind),
        );
        if (shared.length > limit) yield `${shared.length} jobs hold slots of ${queue}`;
      }
    }
  });
});

function expectSame(some: readonly Job[], others: readonly Job[]): void {
  expect(some.length).toBe(others.length);
  expect(new Set(some)).toEqual(new Set(others));
}
