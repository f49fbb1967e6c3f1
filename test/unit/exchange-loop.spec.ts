import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { PgQueueError } from '../../lib/contracts/errors.js';
import type { JobStore } from '../../lib/store/job-store.js';
import type { ExchangeRequest, ExchangeRow } from '../../lib/store/statements/exchange.js';
import { ExchangeLoop, type ExchangeHost } from '../../lib/worker/exchange-loop.js';
import type { Lease } from '../../lib/worker/lease.js';
import { eventually } from '../support/eventually.js';

const SLOTS = 10;

test('slots that a halved claim left free are filled at once, not at the next poll', async () => {
  const claimed: string[] = [];
  const budgets: (number | undefined)[] = [];
  // What the loop needs of a database that was too slow once and then has more to do than there are slots.
  const exchange = async ({ lanes, budget }: ExchangeRequest): Promise<ExchangeRow[]> => {
    budgets.push(budget);
    if (budgets.length === 1) throw new PgQueueError('DATABASE_TIMEOUT', 'Too slow');
    const count = Math.min(lanes[0]?.want ?? 0, budget ?? Infinity);
    return [{ answer: 'alive', dueIn: undefined }, ...Array.from({ length: count }, newJob)];
  };
  const reconcile = async () => ({ epoch: 1, released: 0, remaining: 0 });
  const store = { exchange, reconcile } as Partial<JobStore> as JobStore;
  const lease = { workerId: randomUUID(), epoch: 0, held: true } as Partial<Lease> as Lease;
  const host: ExchangeHost = {
    currentLease: () => lease,
    lanes: () => {
      const want = SLOTS - claimed.length;
      return want > 0 ? [{ queue: 'q', kinds: ['k'], want }] : [];
    },
    budget: () => undefined,
    heldJobs: () => claimed,
    claimed: ({ id }) => claimed.push(id),
    lostJob: () => {},
    exchanged: () => {},
    missingDay: () => {},
  };
  const loop = new ExchangeLoop(store, host, { pollInterval: 3_600_000, lease: 30_000 }, quiet);
  try {
    loop.start();
    await eventually(() => expect(claimed).toHaveLength(SLOTS));
  } finally {
    await loop.stop();
  }
  expect(budgets).toEqual([undefined, 5, 10]);
});

const quiet = new Logger();
quiet.localInstance.warn = () => {};
quiet.localInstance.log = () => {};

let ids = 0;
function newJob(): ExchangeRow {
  const job = { id: String(++ids), leaseNo: 1, queue: 'q', kind: 'k', payload: '{}', attempt: 1 };
  return { answer: 'job', job: { ...job, maxAttempts: 5, meta: null, createdAt: 0 } };
}
