import { cancelMany, countJobs } from '../../lib/store/statements/jobs.js';
import {
  listPausedKinds,
  listQueues,
  pause,
  queueSettings,
  resize,
  resume,
} from '../../lib/store/statements/queues.js';
import { sortByHandler } from '../../lib/store/statements/workers.js';
import { eventually } from '../support/eventually.js';
import {
  exchange,
  insertJobs,
  jobRow,
  openStore,
  startWorker,
  statusOf,
  untilWaiting,
  type Session,
  type TestStore,
} from '../support/store.js';

let t: TestStore;
let a: Session;
let b: Session;

beforeAll(async () => {
  t = await openStore();
  [a, b] = await Promise.all([t.connect(), t.connect()]);
});
afterAll(() => t.close());
beforeEach(async () => {
  await t.observer.query(
    'truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.workers, pgqueue.kinds',
  );
  await t.observer.query('delete from pgqueue.queues');
});

const pausedKindsOf = (worker: string): Promise<string[]> =>
  t.observer.value('select paused_kinds from pgqueue.workers where id = $1', [worker]);

async function insertKinds(...kinds: string[]): Promise<void> {
  await t.observer.query('insert into pgqueue.jobs (kind) select unnest($1::text[])', [kinds]);
}

describe('a paused kind', () => {
  test.each([
    ['that names it', { only: ['k', 'other'] }],
    ['of all kinds', {}],
    ['of all kinds but some', { except: ['third'] }],
  ])('is left alone by a claim %s, and others of the queue are taken', async (_, kinds) => {
    const worker = await startWorker(a, { kinds: ['k', 'other', 'third'] });
    await insertKinds('k', 'other', 'k');
    await b.run(pause, { kind: 'k' });
    const lanes = [{ queue: 'default', want: 10, ...kinds }];
    const taken = async () => (await exchange(a, { worker, lanes })).jobs.map(({ kind }) => kind);
    expect(await taken()).toEqual(['other']);
    await b.run(resume, { kind: 'k' });
    expect(await taken()).toEqual(['k', 'k']);
  });

  test('can be paused by plain SQL, before there is such a kind, and shows when', async () => {
    await b.query(
      `insert into pgqueue.kinds (name, paused_at) values ('k', now()), ('free', null)`,
    );
    const worker = await startWorker(a);
    expect(await pausedKindsOf(worker)).toEqual(['k']);
    expect(await b.run(listPausedKinds, undefined)).toEqual([
      { kind: 'k', pausedAt: expect.any(Date) },
    ]);
    await b.query('update pgqueue.kinds set paused_at = null');
    expect(await pausedKindsOf(worker)).toEqual([]);
    await b.query(`update pgqueue.kinds set paused_at = now() where name = 'free'`);
    expect(await pausedKindsOf(worker)).toEqual(['free']);
    await b.query('truncate pgqueue.kinds');
    expect(await pausedKindsOf(worker)).toEqual([]);
  });

  test('keeps the time of its first pause', async () => {
    await b.run(pause, { kind: 'k' });
    const [first] = await b.run(listPausedKinds, undefined);
    await b.run(pause, { kind: 'k' });
    expect(await b.run(listPausedKinds, undefined)).toEqual([first]);
  });
});

describe('a pause against a claim', () => {
  test.each(['queue', 'kind'] as const)(
    'of a %s that commits while a claim is on its way waits for nothing; the claim keeps its job, the next one gets none',
    async (what) => {
      const worker = await startWorker(a);
      const [first = '', second = ''] = await insertJobs(t.observer, 2);
      const target = what === 'queue' ? { queue: 'default' } : { kind: 'k' };
      await b.query(`set lock_timeout = '1ms'`);
      await a.begin();
      expect((await exchange(a, { worker, want: 1 })).jobs).toHaveLength(1);
      await b.run(pause, target);
      await a.commit();
      await b.query('reset lock_timeout');
      expect((await jobRow(a, first)).locked_by).toBe(worker);
      expect((await exchange(a, { worker, want: 5 })).jobs).toEqual([]);
      expect((await jobRow(a, second)).locked_by).toBeNull();
    },
  );

  test.each(['queue', 'kind'] as const)('of a %s counts from its commit', async (what) => {
    const worker = await startWorker(a);
    await insertJobs(t.observer, 2);
    await b.begin();
    await b.run(pause, what === 'queue' ? { queue: 'default' } : { kind: 'k' });
    expect((await exchange(a, { worker, want: 1 })).jobs).toHaveLength(1);
    await b.commit();
    expect((await exchange(a, { worker, want: 1 })).jobs).toEqual([]);
  });
});

describe('a pause of a kind against a worker that registers', () => {
  test('makes it wait: it has the paused kind from the beginning', async () => {
    await a.begin();
    await a.run(pause, { kind: 'k' });
    const registered = startWorker(b);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await pausedKindsOf(await registered)).toEqual(['k']);
  });

  test('waits for it, and finds it', async () => {
    await a.begin();
    const worker = await startWorker(a);
    const paused = b.run(pause, { kind: 'k' });
    await untilWaiting(t.observer, b);
    await a.commit();
    await paused;
    expect(await pausedKindsOf(worker)).toEqual(['k']);
  });

  test('of two kinds at once loses neither', async () => {
    const worker = await startWorker(t.observer);
    await a.begin();
    await a.run(pause, { kind: 'a' });
    const paused = b.run(pause, { kind: 'b' });
    await untilWaiting(t.observer, b);
    await a.commit();
    await paused;
    expect(await pausedKindsOf(worker)).toEqual(['a', 'b']);
  });
});

describe('ready jobs of a paused kind', () => {
  const waitsFor = async (id: string) =>
    t.observer.value<string | null>('select waits_for from pgqueue.jobs where id = $1', [id]);

  test('are set aside, so that no claim walks them, and brought back when the kind goes on', async () => {
    await startWorker(a, { kinds: ['k', 'other'] });
    const [id = ''] = await insertJobs(t.observer, 1);
    await insertKinds('other');
    await a.run(pause, { kind: 'k' });
    const moved = { queue: 'default', kind: 'k', jobs: 1 };
    expect(await a.run(sortByHandler, 10)).toEqual([{ ...moved, outcome: 'paused' }]);
    expect(await waitsFor(id)).toBe('handler');
    // They wait, but not for want of a handler.
    expect(await a.run(countJobs, undefined)).toContainEqual({
      status: 'waiting',
      waitsFor: 'resume',
      count: 1,
    });
    expect(await a.run(sortByHandler, 10)).toEqual([]);
    await a.run(resume, { kind: 'k' });
    expect(await a.run(sortByHandler, 10)).toEqual([{ ...moved, outcome: 'brought_back' }]);
    expect(await waitsFor(id)).toBeNull();
  });

  test('are looked after at once: a pause and a resume make that task due', async () => {
    const due = () =>
      t.observer.value<boolean>(
        `select next_at <= clock_timestamp() from pgqueue.maintenance where task = 'handlers'`,
      );
    for (const change of [pause, resume]) {
      await t.observer.query(`update pgqueue.maintenance set next_at = now() + interval '1 h'`);
      expect(await due()).toBe(false);
      await a.run(change, { kind: 'k' });
      expect(await due()).toBe(true);
    }
  });

  test('a resume in an open transaction makes the sorting wait, which then brings them back', async () => {
    await startWorker(t.observer);
    const [id = ''] = await insertJobs(t.observer, 1);
    await a.run(pause, { kind: 'k' });
    await a.run(sortByHandler, 10);
    await a.begin();
    await a.run(resume, { kind: 'k' });
    const sorted = b.run(sortByHandler, 10);
    await untilWaiting(t.observer, b);
    await a.commit();
    expect(await sorted).toMatchObject([{ outcome: 'brought_back', jobs: 1 }]);
    expect(await waitsFor(id)).toBeNull();
  });

  test('a sorting in an open transaction makes the resume wait, and the next one brings them back', async () => {
    await startWorker(t.observer);
    const [id = ''] = await insertJobs(t.observer, 1);
    await a.run(pause, { kind: 'k' });
    await a.begin();
    expect(await a.run(sortByHandler, 10)).toMatchObject([{ outcome: 'paused' }]);
    const resumed = b.run(resume, { kind: 'k' });
    await untilWaiting(t.observer, b);
    await a.commit();
    await resumed;
    expect(await waitsFor(id)).toBe('handler');
    expect(await a.run(sortByHandler, 10)).toMatchObject([{ outcome: 'brought_back' }]);
  });
});

describe('workers are told', () => {
  let heard: string[] = [];
  let listener: Session;
  beforeAll(async () => {
    listener = await t.connect();
    listener.client.on('notification', ({ payload = '' }) => heard.push(payload));
    await listener.query(`do $$ begin execute format('listen %I', pgqueue.doorbell()); end $$`);
  });
  beforeEach(async () => {
    await a.query(`select pg_notify(pgqueue.doorbell(), 'begin')`);
    await eventually(() => expect(heard.at(-1)).toBe('begin'));
    heard = [];
  });

  const CHANGES: readonly [string, readonly string[]][] = [
    [`select pgqueue.pause(queue => 'mail')`, ['', 'mail']],
    [`insert into pgqueue.queues (name, paused_at) values ('mail', now())`, ['', 'mail']],
    [`select pgqueue.resize('mail', 3)`, ['', 'mail']],
    [`select pgqueue.pause(kind => 'k')`, ['']],
    [`insert into pgqueue.queues (name) values ('mail')`, []],
  ];
  test.each(CHANGES)('of %s: %j', async (sql, expected) => {
    await a.query(sql);
    // Notifications come in the order of the commits.
    await a.query(`select pg_notify(pgqueue.doorbell(), 'end')`);
    await eventually(() => expect(heard).toEqual([...expected, 'end']));
  });

  test('of the end of a pause, by the function and by an update', async () => {
    await a.query(
      `insert into pgqueue.queues (name, paused_at) values ('one', now()), ('two', now())`,
    );
    await a.query(`insert into pgqueue.kinds (name, paused_at) values ('k', now())`);
    await eventually(() => expect(heard).toHaveLength(4));
    heard = [];
    await a.query(`select pgqueue.resume(queue => 'one')`);
    await a.query(`update pgqueue.queues set paused_at = null where name = 'two'`);
    await a.query(`select pgqueue.resume(kind => 'k')`);
    await eventually(() => expect(heard).toEqual(['', 'one', '', 'two', '']));
  });
});

test('a worker reads what is paused of its queues, and their slots', async () => {
  await a.run(pause, { queue: 'mail' });
  await a.run(pause, { queue: 'others' });
  await a.run(pause, { kind: 'k "quoted"' });
  await a.run(resize, { queue: 'mail', concurrency: 3 });
  await a.run(resize, { queue: 'default', concurrency: 1 });
  await a.run(resize, { queue: 'default', concurrency: null });
  expect(await a.run(queueSettings, ['mail', 'default'])).toEqual([
    { pausedQueues: ['mail'], pausedKinds: ['k "quoted"'], concurrency: [['mail', 3]] },
  ]);
  expect(await a.run(queueSettings, ['default'])).toEqual([
    { pausedQueues: [], pausedKinds: ['k "quoted"'], concurrency: [] },
  ]);
});

test('the list of queues has those with a row and those with jobs only', async () => {
  const worker = await startWorker(a);
  await insertJobs(t.observer, 2);
  await exchange(a, { worker, want: 1 });
  await t.observer.query(`
    insert into pgqueue.jobs (queue, kind, run_at) values ('adrift', 'k', now() + interval '1 h')`);
  await a.run(pause, { queue: 'mail' });
  await a.run(resize, { queue: 'mail', concurrency: 2 });
  const none = { queued: 0, scheduled: 0, waiting: 0, running: 0, failed: 0 };
  const ordinary = { pausedAt: null, concurrency: null, ...none };
  expect(await a.run(listQueues, undefined)).toEqual([
    { name: 'adrift', ...ordinary, scheduled: 1 },
    { name: 'default', ...ordinary, queued: 1, running: 1 },
    { name: 'mail', ...none, pausedAt: expect.any(Date), concurrency: 2 },
  ]);
});

test.each([`pgqueue.pause()`, `pgqueue.pause('q', 'k')`, `pgqueue.resume()`])(
  '%s names neither a queue nor a kind, or both, and is refused',
  async (call) => {
    await expect(a.query(`select ${call}`)).rejects.toMatchObject({ code: '22023' });
  },
);

describe('cancelling many', () => {
  test('passes over what runs, what is locked and what is gone, without waiting', async () => {
    const worker = await startWorker(a);
    const [running = '', locked = '', ...waiting] = await insertJobs(t.observer, 5);
    await exchange(a, { worker, want: 1 });
    await b.begin();
    await b.query('select from pgqueue.jobs where id = $1 for update', [locked]);
    const ids = [running, locked, ...waiting, '9000000000000000000'];
    expect(await a.run(cancelMany, ids)).toEqual([3]);
    await b.rollback();
    expect(await statusOf(a, running)).toBe('running');
    expect(await statusOf(a, locked)).toBe('queued');
    for (const id of waiting) expect(await statusOf(a, id)).toBe('cancelled');
  });

  test('against a claim: who has the row first keeps it', async () => {
    const worker = await startWorker(a);
    const ids = await insertJobs(t.observer, 2);
    await a.begin();
    await exchange(a, { worker, want: 1 });
    expect(await b.run(cancelMany, ids)).toEqual([1]);
    await a.commit();
    expect(await statusOf(a, String(ids[0]))).toBe('running');
    expect((await exchange(a, { worker, want: 5 })).jobs).toEqual([]);
  });
});
