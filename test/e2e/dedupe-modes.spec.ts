import { DuplicateJobError, type EnqueueResult } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';

let app: TestApp;
let ran: unknown[] = [];
let gate: Signal;

beforeAll(async () => {
  app = await startWith([
    on('index', (payload) => ran.push(payload)),
    on('held', async (payload) => {
      ran.push(payload);
      await gate.happened;
    }),
  ]);
});
beforeEach(async () => {
  ran = [];
  gate = signal();
  await app.sql('delete from pgqueue.jobs');
});
afterEach(() => gate.fire());
afterAll(endApps);

const LATER = { delay: '1h' } as const;

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

describe('onDuplicate', () => {
  it('replace gives the job that waits the latest payload and time', async () => {
    const dedupe = { key: 'latest', onDuplicate: 'replace' } as const;
    const first = await app.queue.enqueue('index', { n: 1 }, { dedupe, ...LATER });
    expect(first.outcome).toBe('inserted');
    const second = await app.queue.enqueue('index', { n: 2 }, { dedupe, ...LATER });
    expect(second).toEqual({ id: first.id, outcome: 'replaced' });
    expect(await app.queue.get(first.id)).toMatchObject({
      payload: { n: 2 },
      status: 'scheduled',
    });
    await app.queue.enqueue('index', { n: 3 }, { dedupe });
    await reaches(first.id, 'done');
    expect(ran).toEqual([{ n: 3 }]);
  });

  it('of calls at the same time keeps one job, and the payload of one of them', async () => {
    const dedupe = { key: 'crowd', onDuplicate: 'replace' } as const;
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) => app.queue.enqueue('index', { n }, { dedupe, ...LATER })),
    );
    const outcomes = results.map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === 'inserted')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'replaced')).toHaveLength(49);
    expect(new Set(results.map(({ id }) => id)).size).toBe(1);
    expect(await app.queue.get(results[0]?.id ?? '')).toMatchObject({ payload: { n: 49 } });
  });

  it('throw names the job that has the key, and the transaction goes on', async () => {
    const dedupe = { key: 'once', onDuplicate: 'throw' } as const;
    const { id } = await app.queue.enqueue('index', {}, { dedupe, ...LATER });
    const refused = app.queue.enqueue('index', {}, { dedupe });
    await expect(refused).rejects.toThrow(DuplicateJobError);
    await expect(refused).rejects.toMatchObject({ code: 'DUPLICATE_JOB', holder: id });

    const other = await app.queue.transaction(async (tx) => {
      const call = app.queue.enqueue('index', {}, { dedupe, tx });
      await expect(call).rejects.toMatchObject({ code: 'DUPLICATE_JOB', holder: id });
      return app.queue.enqueue('index', {}, { tx, ...LATER });
    });
    expect(await app.status(other.id)).toBe('scheduled');
  });

  it('throw in enqueueMany takes back all of them; of calls that travel together it fails alone', async () => {
    const dedupe = { key: 'held', onDuplicate: 'throw' } as const;
    const { id } = await app.queue.enqueue('index', {}, { dedupe, ...LATER });
    const many = app.queue.enqueueMany([
      { kind: 'index', dedupe: 'beside', ...LATER },
      { kind: 'index', dedupe, ...LATER },
    ]);
    await expect(many).rejects.toMatchObject({ code: 'DUPLICATE_JOB', holder: id });
    expect(await app.queue.counts()).toMatchObject({ scheduled: 1 });

    const [first, second] = await Promise.allSettled([
      app.queue.enqueue('index', {}, { dedupe: 'beside', ...LATER }),
      app.queue.enqueue('index', {}, { dedupe, ...LATER }),
    ]);
    expect(first).toMatchObject({ status: 'fulfilled', value: { outcome: 'inserted' } });
    expect(second).toMatchObject({ status: 'rejected', reason: { code: 'DUPLICATE_JOB' } });
  });
});

describe('ttl', () => {
  it('takes one job of a key in a time, even after it is done', async () => {
    const dedupe = { key: 'digest', ttl: '1h' } as const;
    const first = await app.queue.enqueue('index', { n: 1 }, { dedupe });
    await reaches(first.id, 'done');
    const second = await app.queue.enqueue('index', { n: 2 }, { dedupe });
    expect(second).toEqual({ id: first.id, outcome: 'duplicate' });
    await app.sql(`update pgqueue.dedupe_windows set until = now() - interval '1 s'`);
    const third = await app.queue.enqueue('index', { n: 3 }, { dedupe });
    expect(third.outcome).toBe('inserted');
    await reaches(third.id, 'done');
  });

  it('is over by itself', async () => {
    const dedupe = { key: 'short', ttl: 30 } as const;
    await app.queue.enqueue('index', {}, { dedupe });
    const id = await eventually(async () => {
      const { outcome, id } = await app.queue.enqueue('index', {}, { dedupe });
      expect(outcome).toBe('inserted');
      return id;
    });
    await reaches(id, 'done');
  });
});

describe('until started', () => {
  it('with replace keeps the latest while one runs: one runs, and one waits', async () => {
    const dedupe = { key: 'user-7', until: 'started', onDuplicate: 'replace' } as const;
    const first = await app.queue.enqueue('held', { n: 1 }, { dedupe });
    await eventually(() => expect(ran).toEqual([{ n: 1 }]));
    const second = await app.queue.enqueue('held', { n: 2 }, { dedupe, ...LATER });
    const third = await app.queue.enqueue('held', { n: 3 }, { dedupe, ...LATER });
    expect(second.outcome).toBe('inserted');
    expect(second.id).not.toBe(first.id);
    expect(third).toEqual({ id: second.id, outcome: 'replaced' });
    gate.fire();
    await reaches(first.id, 'done');
    await app.queue.enqueue('held', { n: 4 }, { dedupe });
    await reaches(second.id, 'done');
    expect(ran).toEqual([{ n: 1 }, { n: 4 }]);
  });
});

describe('debounce', () => {
  it('runs once, with the last payload, when no enqueue came for that long', async () => {
    const dedupe = { key: 'cart-7', debounce: '200ms' } as const;
    const results: EnqueueResult[] = [];
    for (const n of [1, 2, 3]) results.push(await app.queue.enqueue('index', { n }, { dedupe }));
    expect(results.map(({ outcome }) => outcome)).toEqual(['inserted', 'replaced', 'replaced']);
    const id = results[0]?.id ?? '';
    await reaches(id, 'done');
    expect(ran).toEqual([{ n: 3 }]);
  });

  it('puts the due time off each time, by the database’s clock', async () => {
    const dedupe = { key: 'slow', debounce: '1h' } as const;
    const { id } = await app.queue.enqueue('index', {}, { dedupe });
    const before = await app.queue.get(id);
    await app.queue.enqueue('index', {}, { dedupe });
    const after = await app.queue.get(id);
    expect(after?.status).toBe('scheduled');
    expect(Number(after?.runAt)).toBeGreaterThan(Number(before?.runAt));
  });

  it('takes what comes while the job runs as a job of its own', async () => {
    const dedupe = { key: 'busy', debounce: 1 } as const;
    const first = await app.queue.enqueue('held', { n: 1 }, { dedupe });
    await eventually(() => expect(ran).toHaveLength(1));
    const second = await app.queue.enqueue('held', { n: 2 }, { dedupe });
    expect(second.outcome).toBe('inserted');
    gate.fire();
    await reaches(first.id, 'done');
    await reaches(second.id, 'done');
  });
});

it('waits for the holder’s transaction, and replaces its job after the commit', async () => {
  const dedupe = { key: 'open', onDuplicate: 'replace' } as const;
  let waiting: Promise<EnqueueResult> | undefined;
  const held = await app.queue.transaction(async (tx) => {
    const result = await app.queue.enqueue('index', { n: 1 }, { dedupe, tx, ...LATER });
    waiting = app.queue.enqueue('index', { n: 2 }, { dedupe, ...LATER });
    await eventually(async () => {
      const [row] = await app.sql(
        `select count(*)::int as n from pg_stat_activity
          where wait_event_type = 'Lock' and query like '%' || $1 || '%enqueue_keyed%'`,
        [app.schema],
      );
      expect(row.n).toBe(1);
    });
    return result;
  });
  expect(await waiting).toEqual({ id: held.id, outcome: 'replaced' });
  expect(await app.queue.get(held.id)).toMatchObject({ payload: { n: 2 } });
});
