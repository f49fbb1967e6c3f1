import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { PgQueueError } from '../../lib/contracts/errors.js';
import type { JobStore } from '../../lib/store/job-store.js';
import type { ExchangeRequest, ExchangeRow } from '../../lib/store/statements/exchange.js';
import type { ExchangeHost, Turn } from '../../lib/worker/exchange-host.js';
import { ExchangeLoop } from '../../lib/worker/exchange-loop.js';
import type { Lease } from '../../lib/worker/lease.js';
import { eventually } from '../support/eventually.js';

const SLOTS = 10;
const HOUR_MS = 3_600_000;

/** What the database says to the first request, to the second and so on; then it finds nothing. */
type Answer = ExchangeRow[] | ((request: ExchangeRequest) => ExchangeRow[] | Promise<ExchangeRow[]>);

interface Stage {
  readonly loop: ExchangeLoop;
  readonly workerId: string;
  readonly requests: ExchangeRequest[];
  readonly turns: Turn[];
  /** Claimed jobs. */
  readonly claimed: string[];
  /** Requests, and how many claimed jobs began, in order. */
  readonly events: string[];
}

let stage: Stage;

afterEach(() => stage.loop.stop());

/** A loop that has slots for `slots` jobs, all of which run for ever. It looks again after `pollIn` ms. */
function startLoop(
  answers: readonly Answer[],
  { slots = SLOTS, pollIn = () => HOUR_MS }: { slots?: number; pollIn?: () => number } = {},
): Stage {
  const workerId = randomUUID();
  const requests: ExchangeRequest[] = [];
  const turns: Turn[] = [];
  const claimed: string[] = [];
  const events: string[] = [];
  let begun = 0;
  const store: Partial<JobStore> = {
    exchange: async (request) => {
      events.push(`request ${requests.push(request)}`);
      const answer = answers[requests.length - 1] ?? found(0);
      return typeof answer === 'function' ? answer(request) : answer;
    },
    reconcile: async () => ({ epoch: 1, released: 0, remaining: 0 }),
  };
  const lease: Partial<Lease> = { workerId, epoch: 0, held: true };
  const host: ExchangeHost = {
    currentLease: () => lease as Lease,
    lanes: () => {
      const want = slots - claimed.length;
      return want > 0 ? [{ queue: 'q', want }] : [];
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
      return pollIn();
    },
    missingDay: () => {},
  };
  const loop = new ExchangeLoop(store as JobStore, host, { lease: 30_000 }, quiet);
  stage = { loop, workerId, requests, turns, claimed, events };
  loop.start();
  return stage;
}

const quiet = new Logger();
quiet.localInstance.warn = () => {};
quiet.localInstance.log = () => {};

let ids = 0;

/** An answer with that many jobs, of which the last one was found by that look. */
function found(count: number, { look = 0, took = 0 } = {}): ExchangeRow[] {
  const jobs = Array.from({ length: count }, newJob);
  const position = { priority: 0, runAt: '2031-01-01 00:00:00+00', id: String(ids) };
  const last = count > 0 ? [{ look, position }] : [];
  const progress = { dueAfter: '2031-01-01 00:00:00+00', last, took };
  return [{ answer: 'alive', dueIn: undefined, progress }, ...jobs];
}

function newJob(): ExchangeRow {
  const job = { id: String(++ids), leaseNo: 1, queue: 'q', kind: 'k', payload: '{}' };
  return {
    answer: 'job',
    job: { ...job, priority: 0, attempt: 1, maxAttempts: 5, meta: null, createdAt: 0 },
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
    const beginThenAnswer = async () => {
      await eventually(() => expect(stage.events).toContain('4 begin'));
      return found(0);
    };
    // Four are all that the first request asks for, and then there are more slots.
    let slots = 4;
    const { events, turns } = startLoop(
      [
        () => {
          const rows = found(slots);
          slots = 6;
          return rows;
        },
        beginThenAnswer,
      ],
      { slots: 4 },
    );
    await eventually(() => expect(turns.length).toBeGreaterThan(1));
    expect(events.slice(0, 3)).toEqual(['request 1', 'request 2', '4 begin']);
  });
});
