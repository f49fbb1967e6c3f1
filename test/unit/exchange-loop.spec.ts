import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { PgQueueError } from '../../lib/contracts/errors.js';
import type { JobStore } from '../../lib/store/job-store.js';
import type {
  ExchangeRequest,
  ExchangeRow,
  Lane,
  Settlement,
} from '../../lib/store/statements/exchange.js';
import type { ExchangeHost, Turn } from '../../lib/worker/exchange-host.js';
import { ExchangeLoop } from '../../lib/worker/exchange-loop.js';
import type { Lease } from '../../lib/worker/lease.js';
import { eventually } from '../support/eventually.js';

const SLOTS = 10;
const HOUR_MS = 3_600_000;

/** What the database says to the first request, to the second and so on; then it finds nothing. */
type Answer =
  ExchangeRow[] | ((request: ExchangeRequest) => ExchangeRow[] | Promise<ExchangeRow[]>);

interface Stage {
  readonly loop: ExchangeLoop;
  readonly workerId: string;
  readonly requests: ExchangeRequest[];
  readonly turns: Turn[];
  /** Claimed jobs. */
  readonly claimed: string[];
  /** The jobs that each reconcile knew. */
  readonly reconciled: (readonly string[])[];
  /** Requests, and how many claimed jobs began, in order. */
  readonly events: string[];
}

let stage: Stage;

afterEach(() => stage.loop.stop());

interface Settings {
  /** Jobs that one request asks for, at most. */
  readonly want?: number;
  /** When to look again if nothing rings, in milliseconds. */
  readonly pollIn?: number;
  /** What to ask for by how many jobs are claimed, in place of one lane. */
  readonly lanes?: (claimed: number) => readonly Lane[];
}

/** A loop with ten slots whose jobs run for ever. */
function startLoop(
  answers: readonly Answer[],
  { want = SLOTS, pollIn = HOUR_MS, lanes }: Settings = {},
): Stage {
  const workerId = randomUUID();
  const requests: ExchangeRequest[] = [];
  const turns: Turn[] = [];
  const claimed: string[] = [];
  const reconciled: (readonly string[])[] = [];
  const events: string[] = [];
  let begun = 0;
  let held = true;
  const store: Partial<JobStore> = {
    exchange: async (request) => {
      events.push(`request ${requests.push(request)}`);
      const answer = answers[requests.length - 1] ?? found(0);
      return typeof answer === 'function' ? answer(request) : answer;
    },
    reconcile: async (_, known) => ({
      epoch: reconciled.push(known),
      released: 0,
      remaining: 0,
    }),
  };
  const lease: Partial<Lease> = {
    workerId,
    epoch: 0,
    get held() {
      return held;
    },
    lose: () => {
      held = false;
    },
  };
  const host: ExchangeHost = {
    attempts: { answered: () => {}, spent: () => {} },
    currentLease: () => lease as Lease,
    lanes: () => {
      if (lanes) return [...lanes(claimed.length)];
      const free = SLOTS - claimed.length;
      return free > 0 ? [{ queue: 'q', want: Math.min(want, free) }] : [];
    },
    budget: () => undefined,
    heldJobs: () => claimed,
    claimed: ({ id }) => claimed.push(id),
    begin: () => {
      if (claimed.length > begun) events.push(`${claimed.length - begun} begin`);
      begun = claimed.length;
    },
    lostJob: () => {},
    exchanged: (turn) => {
      turns.push(turn);
      return pollIn;
    },
    missingDay: () => {},
  };
  const loop = new ExchangeLoop(store as JobStore, host, { lease: 30_000 }, quiet);
  stage = { loop, workerId, requests, turns, claimed, reconciled, events };
  loop.start();
  return stage;
}

const quiet = new Logger();
quiet.localInstance.warn = () => {};
quiet.localInstance.log = () => {};

let ids = 0;

interface Looked {
  /** Which look found the last job. */
  readonly look?: number;
  /** Milliseconds that looking took. */
  readonly took?: number;
  /** Milliseconds until the next scheduled job. */
  readonly dueIn?: number;
}

/** An answer with that many jobs. */
function found(count: number, { look = 0, took = 0, dueIn }: Looked = {}): ExchangeRow[] {
  const jobs = Array.from({ length: count }, newJob);
  const position = { priority: 0, runAt: '2031-01-01 00:00:00+00', id: String(ids) };
  const last = count > 0 ? [{ look, position }] : [];
  const progress = { dueAfter: '2031-01-01 00:00:00+00', last, took };
  return [{ answer: 'alive', dueIn, progress }, ...jobs];
}

function newJob(): ExchangeRow {
  const job = { id: String(++ids), leaseNo: 1, queue: 'q', kind: 'k', payload: '{}' };
  return {
    answer: 'job',
    job: { ...job, priority: 0, attempt: 1, maxAttempts: 5, meta: null, createdAt: 0 },
  };
}

const gone = () => Promise.reject(new PgQueueError('DATABASE_TIMEOUT', 'Gone'));

/** The same answer, and beside it the instant at which it was asked for. */
function timed(times: number[], rows: ExchangeRow[]): Answer {
  return () => {
    times.push(performance.now());
    return rows;
  };
}

/** Whether each request looked at everything from its start. */
function looks({ requests }: Stage): ('full' | 'short')[] {
  return requests.map(({ looks, dueAfter }) =>
    dueAfter === undefined && looks.every(({ after }) => after === undefined) ? 'full' : 'short',
  );
}

test('slots that a halved claim left free are filled at once, not at the next poll', async () => {
  // What the loop needs of a database that was too slow once and then has more to do than there are slots.
  const fill = ({ looks, budget }: ExchangeRequest) =>
    found(Math.min(looks[0]?.want ?? 0, budget ?? Infinity));
  const tooSlow = () => Promise.reject(new PgQueueError('DATABASE_TIMEOUT', 'Too slow'));
  const { claimed, requests } = startLoop([tooSlow, fill, fill]);
  await eventually(() => expect(claimed).toHaveLength(SLOTS));
  expect(requests.map(({ budget }) => budget)).toEqual([undefined, 5, 10]);
});

describe('claimed jobs', () => {
  test('begin when the next request is on its way, if the claim got all it asked for', async () => {
    const whenTheyRun = async () => {
      await eventually(() => expect(stage.events).toContain('4 begin'));
      return found(0);
    };
    const { events, turns } = startLoop([found(4), whenTheyRun], { want: 4 });
    await eventually(() => expect(turns).toHaveLength(3));
    expect(events).toEqual(['request 1', 'request 2', '4 begin', 'request 3']);
  });

  test('begin at once if the claim got less', async () => {
    const { events, turns, loop } = startLoop([found(3)], { want: 4 });
    await eventually(() => expect(events).toContain('3 begin'));
    loop.ring();
    await eventually(() => expect(turns).toHaveLength(2));
    expect(events).toEqual(['request 1', '3 begin', 'request 2']);
  });

  test('begin at once if there is nothing more to ask for', async () => {
    const { events } = startLoop([found(SLOTS)]);
    await eventually(() => expect(events).toContain('10 begin'));
    expect(events).toEqual(['request 1', '10 begin']);
  });

  test('begin although the next request fails', async () => {
    const { events } = startLoop([found(4), gone], { want: 4 });
    await eventually(() => expect(events).toContain('4 begin'));
    expect(events.slice(0, 3)).toEqual(['request 1', 'request 2', '4 begin']);
  });
});

describe('the next look', () => {
  test('begins where the last one ended, if that got all it asked for', async () => {
    const started = startLoop([found(4), found(4, { look: 1 }), found(1, { look: 1 })], {
      want: 4,
    });
    await eventually(() => expect(started.turns).toHaveLength(3));
    expect(looks(started)).toEqual(['full', 'short', 'short']);
    expect(started.turns).toEqual([
      { found: 4, hasSpare: false, isFull: true },
      { found: 4, hasSpare: false, isFull: false },
      { found: 1, hasSpare: true, isFull: false },
    ]);
  });

  test('is a full one after a short one that found nothing, and then there is none', async () => {
    const started = startLoop([found(4), found(0)], { want: 4 });
    await eventually(() => expect(started.turns).toHaveLength(3));
    await started.loop.stop();
    expect(looks(started)).toEqual(['full', 'short', 'full']);
    expect(started.turns.at(-1)).toEqual({ found: 0, hasSpare: true, isFull: true });
  });

  test('waits for the share of full looks when the last one took long', async () => {
    const times: number[] = [];
    const answers = [found(4, { took: 10 }), found(0), found(0)];
    const started = startLoop(
      answers.map((rows) => timed(times, rows)),
      { want: 4 },
    );
    await eventually(() => expect(started.turns).toHaveLength(3));
    const [first = 0, , third = 0] = times;
    expect(third - first).toBeGreaterThanOrEqual(100);
    expect(looks(started)).toEqual(['full', 'short', 'full']);
  });

  test('is a short one after a claim that got all it asked for, and a full one when it got nothing', async () => {
    const started = startLoop([found(4), found(4, { look: 1 })], { want: 4 });
    const { loop, turns } = started;
    await eventually(() => expect(turns).toHaveLength(4));
    loop.ring();
    await eventually(() => expect(turns).toHaveLength(5));
    expect(looks(started)).toEqual(['full', 'short', 'short', 'full', 'full']);
  });

  test('waits for no lane that is not asked for any more', async () => {
    const own: Lane = { queue: 'q', only: ['own'], want: 1 };
    const others: Lane = { queue: 'q', except: ['own'], want: 3 };
    const { loop, turns } = startLoop([found(1)], {
      lanes: (claimed) => (claimed === 0 ? [own, others] : [others]),
    });
    await eventually(() => expect(turns).toHaveLength(1));
    loop.ring();
    await eventually(() => expect(turns.length).toBeGreaterThan(1));
    // A loop that spins takes hundreds of turns of its own in these of the event loop.
    for (let turn = 0; turn < 200; turn += 1) await new Promise(setImmediate);
    expect(turns.length).toBeLessThanOrEqual(3);
  });

  test('is a full one when a ring was waited for in vain', async () => {
    const started = startLoop([found(1)], { pollIn: 30 });
    await eventually(() => expect(started.turns.length).toBeGreaterThan(1));
    expect(looks(started).slice(0, 2)).toEqual(['full', 'full']);
  });

  test('is a full one after a request that was not answered', async () => {
    const started = startLoop([found(4), gone, found(1)], { want: 4 });
    await eventually(() => expect(started.turns).toHaveLength(2));
    expect(looks(started)).toEqual(['full', 'short', 'full']);
  });

  test('is a full one after a ring that came during a full look', async () => {
    const ringsMeanwhile = () => {
      stage.loop.ring();
      return found(4);
    };
    const started = startLoop([ringsMeanwhile, found(1)], { want: 4 });
    await eventually(() => expect(started.turns).toHaveLength(2));
    expect(looks(started)).toEqual(['full', 'full']);
  });

  test('is a full one as soon as it is allowed after a ring that came before', async () => {
    const times: number[] = [];
    const ringsMeanwhile = () => {
      times.push(performance.now());
      stage.loop.ring();
      return found(4, { took: 10 });
    };
    const answers = [ringsMeanwhile, timed(times, found(1, { look: 1 })), timed(times, found(0))];
    const started = startLoop(answers, { want: 4 });
    await eventually(() => expect(started.turns).toHaveLength(3));
    const [first = 0, , third = 0] = times;
    expect(third - first).toBeGreaterThanOrEqual(100);
    expect(looks(started)).toEqual(['full', 'short', 'full']);
  });

  test('at scheduled jobs that somebody has locked comes after 5 ms, then later and later', async () => {
    const times: number[] = [];
    const locked = timed(times, found(0, { dueIn: 0 }));
    const { turns } = startLoop([locked, locked, locked, locked, locked], { want: 1 });
    await eventually(() => expect(turns).toHaveLength(6));
    const pauses = times.slice(1).map((time, i) => time - (times[i] ?? 0));
    for (const [i, least] of [5, 10, 20, 40].entries()) {
      expect(pauses[i]).toBeGreaterThanOrEqual(least);
    }
    expect(turns.slice(0, 5)).toEqual(
      Array.from({ length: 5 }, () => ({ found: 1, hasSpare: true, isFull: true })),
    );
  });
});

test.each<[string, number]>([
  ['dead', 1],
  ['stale', 2],
])(
  'an answer that this worker is %s is no idle turn: it did not look for jobs',
  async (answer, asked) => {
    const refused = [{ answer }] as ExchangeRow[];
    const { turns, requests, loop } = startLoop([refused, found(1)]);
    await eventually(() => expect(turns).toHaveLength(asked));
    await loop.stop();
    expect(turns[0]).toEqual({ found: 0, hasSpare: false, isFull: false });
    expect(requests.map(({ epoch }) => epoch)).toEqual([0, 1].slice(0, asked));
  },
);

describe('settlements', () => {
  const ended = (count: number): Settlement[] =>
    Array.from({ length: count }, (_, i) => ({ id: `e${i}`, leaseNo: 1, action: 'release' }));
  const sent = () => stage.requests.map(({ settlements }) => settlements.length);

  test('that come while a claim is on its way go out together, with the next request', async () => {
    const endsMeanwhile = () => {
      for (const settlement of ended(300)) stage.loop.settle(stage.workerId, settlement);
      return found(1);
    };
    const { turns, loop } = startLoop([endsMeanwhile]);
    await eventually(() => expect(turns).toHaveLength(2));
    expect(sent()).toEqual([0, 300]);
    expect(loop.outbox.size).toBe(0);
  });

  test('are sent again after an error, and until then known to a reconcile', async () => {
    const { turns, requests, reconciled, claimed, loop, workerId } = startLoop([found(1), gone]);
    await eventually(() => expect(turns).toHaveLength(1));
    loop.settle(workerId, ...ended(2));
    await eventually(() => expect(turns).toHaveLength(2));
    expect(sent()).toEqual([0, 2, 2]);
    expect(requests[2]?.settlements).toEqual(ended(2));
    expect(reconciled).toEqual([[...claimed, 'e0', 'e1']]);
  });

  test('are flushed when they have been answered, not when they have been sent', async () => {
    const events: string[] = [];
    const answersLate = async () => {
      await eventually(() => expect(events).toContain('asked to flush'));
      events.push('answered');
      return found(0);
    };
    const { turns, loop, workerId } = startLoop([found(1), answersLate]);
    await eventually(() => expect(turns).toHaveLength(1));
    loop.settle(workerId, ...ended(1));
    await eventually(() => expect(sent()).toEqual([0, 1]));
    const flushed = loop.flushed().then(() => events.push('flushed'));
    events.push('asked to flush');
    await flushed;
    expect(events).toEqual(['asked to flush', 'answered', 'flushed']);
  });

  test('are not flushed by an error, but by the answer to the next try', async () => {
    const { loop, workerId } = startLoop([found(1), gone]);
    await eventually(() => expect(stage.turns).toHaveLength(1));
    loop.settle(workerId, ...ended(1));
    await loop.flushed();
    expect(sent().slice(0, 3)).toEqual([0, 1, 1]);
  });
});
