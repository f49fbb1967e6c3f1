import {
  done,
  endLease,
  exchange,
  jobRow,
  openStore,
  startWorker,
  type Exchanged,
  type Session,
  type TestStore,
} from '../support/store.js';
import { declareDead, rescue } from '../../lib/store/statements/workers.js';
import { sweepSlots } from '../../lib/store/statements/limits.js';

let t: TestStore;
let observer: Session;
let a: Session;
let b: Session;
beforeAll(async () => {
  t = await openStore();
  ({ observer } = t);
  [a, b] = [await t.connect(), await t.connect()];
});
afterAll(() => t.close());
beforeEach(async () => {
  await observer.query(
    'truncate pgqueue.jobs, pgqueue.limits, pgqueue.holds, pgqueue.rates, pgqueue.workers',
  );
});

/** Limits as people write them. */
async function limit(columns: Record<string, unknown>): Promise<void> {
  const names = Object.keys(columns);
  await observer.query(
    `insert into pgqueue.limits (${names.join()}) values (${names.map((_, i) => `$${i + 1}`).join()})`,
    Object.values(columns),
  );
}

/** Jobs of kind `k`, one for each tenant named; ids in order. */
async function jobsOf(tenants: string, runAt = 'now()'): Promise<string[]> {
  const rows = await observer.rows<{ id: string }>(
    `insert into pgqueue.jobs (kind, payload, run_at)
     select 'k', jsonb_build_object('tenant', t), ${runAt}
       from unnest(string_to_array($1, null)) as t returning id`,
    [tenants],
  );
  return rows.map(({ id }) => id);
}

function ids({ jobs }: Exchanged): string[] {
  return jobs.map(({ id }) => id);
}

/** What waits for a slot: id → key. */
async function parked(): Promise<Record<string, string>> {
  const rows = await observer.rows<{ id: string; parked_on: string }>(
    `select id, parked_on from pgqueue.jobs where waits_for = 'slot' order by id`,
  );
  return Object.fromEntries(rows.map(({ id, parked_on }) => [id, parked_on]));
}

describe('a limit of running jobs', () => {
  it('is not passed by one claim, and parks what has no room', async () => {
    await limit({ name: 'two', max_running: 2 });
    const jobs = await jobsOf('abcd');
    const worker = await startWorker(a);
    const got = await exchange(a, { worker, want: 10 });
    expect(ids(got)).toEqual(jobs.slice(0, 2));
    expect(got.progress?.limits).toMatchObject({ held: jobs.slice(0, 2), parked: 2, refused: [] });
    expect(await parked()).toEqual({ [jobs[2] ?? '']: 'two', [jobs[3] ?? '']: 'two' });
    expect((await jobRow(observer, jobs[2] ?? '')).status).toBe('waiting');
  });

  it('leaves jobs alone that it does not hold for', async () => {
    await limit({ name: 'other kind', kinds: ['x'], max_running: 0 });
    await limit({ name: 'other queue', queue: 'x', max_running: 0 });
    const jobs = await jobsOf('ab');
    const got = await exchange(a, { worker: await startWorker(a), want: 10 });
    expect(ids(got)).toEqual(jobs);
    expect(got.progress?.limits).toMatchObject({ held: [], parked: 0 });
    expect(await observer.value('select count(*)::int from pgqueue.holds')).toBe(0);
  });

  it('is not waited for while another claim is counting: the job is skipped, and there for the next claim', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first, second] = await jobsOf('ab');
    const [one, two] = [await startWorker(observer), await startWorker(observer)];
    await a.begin();
    expect(ids(await exchange(a, { worker: one, want: 1 }))).toEqual([first]);
    const meanwhile = await exchange(b, { worker: two, want: 10 });
    expect(ids(meanwhile)).toEqual([]);
    expect(meanwhile.progress).toMatchObject({ last: [], limits: { skipped: true, parked: 0 } });
    await a.rollback();
    expect(ids(await exchange(b, { worker: two, want: 1 }))).toEqual([first]);
    expect(ids(await exchange(a, { worker: one, want: 1 }))).toEqual([]);
    expect(await parked()).toEqual({ [second ?? '']: 'one' });
  });

  it('gives the slot of a settled job to the next one in the same exchange', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first = '', second = ''] = await jobsOf('ab');
    const worker = await startWorker(a);
    const [job] = (await exchange(a, { worker, want: 10 })).jobs;
    const next = await exchange(a, {
      worker,
      want: 10,
      settlements: [done(job ?? { id: first, leaseNo: 1 })],
      held: [first],
    });
    expect(ids(next)).toEqual([second]);
    expect(await observer.rows('select job_id, key from pgqueue.holds')).toEqual([
      { job_id: second, key: 'one' },
    ]);
  });

  it('rings for the job if this worker does not claim it', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first = ''] = await jobsOf('ab');
    const worker = await startWorker(a);
    const [job] = (await exchange(a, { worker, want: 10 })).jobs;
    await b.query(`listen "${await observer.value<string>('select pgqueue.doorbell()')}"`);
    const rang = new Promise((resolve) => b.client.once('notification', resolve));
    await exchange(a, {
      worker,
      settlements: [done(job ?? { id: first, leaseNo: 1 })],
      held: [first],
    });
    expect(await rang).toMatchObject({ payload: 'default' });
    expect(await parked()).toEqual({});
  });

  it('answers a freed key that somebody else is counting, and takes it again later', async () => {
    await limit({ name: 'two', max_running: 2 });
    const [first = '', second = '', third = ''] = await jobsOf('abc');
    const [one, two] = [await startWorker(observer), await startWorker(observer)];
    await exchange(a, { worker: one, want: 1 });
    const [job] = (await exchange(b, { worker: two, want: 1 })).jobs;
    await exchange(b, { worker: two, want: 1 }); // parks the third
    await a.begin();
    await exchange(a, {
      worker: one,
      settlements: [done({ id: first, leaseNo: 1 })],
      held: [first],
    });
    const refused = await exchange(b, {
      worker: two,
      settlements: [done(job ?? { id: second, leaseNo: 1 })],
      held: [second],
    });
    expect(refused.progress?.limits?.refused).toEqual(['two']);
    await a.rollback();
    expect(await parked()).toEqual({ [third]: 'two' });
    const next = await exchange(b, { worker: two, want: 1, freed: ['two'] });
    expect(ids(next)).toEqual([third]);
  });

  it('keeps the order: a job that comes later waits behind those that are parked', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first = '', second = ''] = await jobsOf('ab');
    const worker = await startWorker(a);
    await exchange(a, { worker, want: 10 });
    const [third = ''] = await jobsOf('c');
    // The slot becomes free without anybody un-parking.
    await observer.query('delete from pgqueue.jobs where id = $1', [first]);
    const got = await exchange(a, { worker, want: 10 });
    expect(ids(got)).toEqual([]);
    expect(got.progress?.limits).toMatchObject({ skipped: true });
    expect(ids(await exchange(a, { worker, want: 10 }))).toEqual([second]);
    expect(await parked()).toEqual({ [third]: 'one' });
  });

  it('B54: counts what live workers hold, so that the slot of a dead one is free once its job is', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first = '', second = ''] = await jobsOf('ab');
    const [one, two] = [await startWorker(observer), await startWorker(observer)];
    await exchange(a, { worker: one, want: 1 });
    await exchange(b, { worker: two, want: 1 });
    expect(await parked()).toEqual({ [second]: 'one' });
    await endLease(observer, one);
    expect(await observer.run(sweepSlots, undefined)).toEqual([0]);
    await observer.run(declareDead, one);
    expect(await observer.run(sweepSlots, undefined)).toEqual([0]);
    await observer.run(rescue, { strays: false, limit: 10 });
    expect(await observer.run(sweepSlots, undefined)).toEqual([1]);
    // The rescued job and the one that waited are there for one slot.
    expect(ids(await exchange(b, { worker: two, want: 10 }))).toEqual([first]);
    expect(await parked()).toEqual({ [second]: 'one' });
    // The dead one ends late: it frees nothing.
    const late = await exchange(a, {
      worker: one,
      settlements: [done({ id: first, leaseNo: 1 })],
      held: [first],
    });
    expect(late.answers).toEqual({ [first]: 'lost' });
    expect(await observer.value('select count(*)::int from pgqueue.holds')).toBe(1);
    expect(await observer.run(sweepSlots, undefined)).toEqual([0]);
  });

  it('does not free the slot of a job whose row somebody else has locked', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first = ''] = await jobsOf('ab');
    const worker = await startWorker(observer);
    await exchange(a, { worker, want: 10 });
    await b.begin();
    await b.query('select from pgqueue.jobs where id = $1 for update', [first]);
    const busy = await exchange(a, {
      worker,
      want: 10,
      settlements: [done({ id: first, leaseNo: 1 })],
      held: [first],
    });
    await b.rollback();
    expect(busy.answers).toEqual({ [first]: 'busy' });
    expect(ids(busy)).toEqual([]);
    expect(await observer.value('select count(*)::int from pgqueue.holds')).toBe(1);
  });

  it('forgets what a job held that is gone, but not what a claim is taking over meanwhile', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [first = ''] = await jobsOf('a');
    const [one, two] = [await startWorker(observer), await startWorker(observer)];
    await exchange(a, { worker: one, want: 1 });
    await observer.query('update pgqueue.jobs set locked_by = null where id = $1', [first]);
    await a.begin();
    expect(ids(await exchange(a, { worker: two, want: 1 }))).toEqual([first]);
    await b.run(sweepSlots, undefined);
    await a.commit();
    await b.run(sweepSlots, undefined);
    expect(await observer.rows('select worker from pgqueue.holds')).toEqual([{ worker: two }]);
    await observer.query('delete from pgqueue.jobs');
    await b.run(sweepSlots, undefined);
    expect(await observer.rows('select worker from pgqueue.holds')).toEqual([]);
  });

  it('may be changed at any time: the next claim knows, and a sweep gives room to those that wait', async () => {
    await limit({ name: 'one', max_running: 1 });
    const [, second = '', third = ''] = await jobsOf('abc');
    const worker = await startWorker(a);
    await exchange(a, { worker, want: 10 });
    await observer.query('update pgqueue.limits set max_running = 2');
    expect(await observer.run(sweepSlots, undefined)).toEqual([1]);
    expect(ids(await exchange(a, { worker, want: 10 }))).toEqual([second]);
    await observer.query('delete from pgqueue.limits');
    expect(await observer.run(sweepSlots, undefined)).toEqual([1]);
    expect(ids(await exchange(a, { worker, want: 10 }))).toEqual([third]);
  });

  it('rings when it is changed, with an empty name', async () => {
    await b.query(`listen "${await observer.value<string>('select pgqueue.doorbell()')}"`);
    const rang = new Promise((resolve) => b.client.once('notification', resolve));
    await limit({ name: 'one', max_running: 1 });
    expect(await rang).toMatchObject({ payload: '' });
  });
});

describe('a limit apart for each value of the payload', () => {
  it('holds for each, and no value stands in the way of another', async () => {
    await limit({ name: 'per tenant', by: ['tenant'], max_running: 1 });
    const [a1 = '', , , b1 = '', c1 = ''] = await jobsOf('aaabc');
    const worker = await startWorker(a);
    const got = await exchange(a, { worker, want: 10 });
    expect(ids(got)).toEqual([a1, b1, c1]);
    expect(new Set(Object.values(await parked()))).toEqual(new Set(['per tenant/a']));
  });

  it('moves a long head of one value out of the way, a thousand jobs a claim', async () => {
    await limit({ name: 'per tenant', by: ['tenant'], max_running: 1 });
    const [a1 = ''] = await jobsOf('a'.repeat(2_500), `now() - interval '1 minute'`);
    const [b1 = ''] = await jobsOf('b');
    const worker = await startWorker(a);
    expect(ids(await exchange(a, { worker, want: 20 }))).toEqual([a1]);
    for (let claims = 1; claims <= 3; claims += 1) {
      const got = ids(await exchange(a, { worker, want: 20 }));
      if (got.length === 0) continue;
      expect(got).toEqual([b1]);
      expect(claims).toBe(3);
    }
    expect(Object.keys(await parked())).toHaveLength(2_499);
  });

  it('counts payloads without the value together, and takes any value there is', async () => {
    await limit({ name: 'one', by: ['tenant', 'id'], max_running: 1 });
    await observer.query(
      `insert into pgqueue.jobs (kind, payload) values
         ('k', '{}'), ('k', '{"tenant": null}'), ('k', '[1]'), ('k', '{"tenant": {"id": 7}}'),
         ('k', '{"tenant": {"id": "7"}}'), ('k', jsonb_build_object('tenant', jsonb_build_object('id', repeat('x', 5000))))`,
    );
    const got = await exchange(a, { worker: await startWorker(a), want: 10 });
    expect(got.jobs).toHaveLength(3);
    expect(Object.values(await parked()).toSorted()).toEqual(['one/', 'one/', 'one/7']);
  });

  it('holds together with others: a job needs room under each', async () => {
    await limit({ name: 'all', max_running: 3 });
    await limit({ name: 'per tenant', by: ['tenant'], max_running: 1 });
    const [a1 = '', a2 = '', b1 = '', c1 = '', d1 = ''] = await jobsOf('aabcd');
    const worker = await startWorker(a);
    expect(ids(await exchange(a, { worker, want: 10 }))).toEqual([a1, b1, c1]);
    expect(await parked()).toEqual({ [a2]: 'per tenant/a', [d1]: 'all' });
    const next = await exchange(a, {
      worker,
      want: 10,
      settlements: [done({ id: b1, leaseNo: 1 })],
      held: [b1],
    });
    expect(ids(next)).toEqual([d1]);
    const last = await exchange(a, {
      worker,
      want: 10,
      settlements: [done({ id: a1, leaseNo: 1 })],
      held: [a1],
    });
    expect(ids(last)).toEqual([a2]);
  });
});

describe('a rate', () => {
  it('lets a job begin when its time has come, and says when that is', async () => {
    await limit({ name: 'slow', rate_max: 1, rate_per: '1 hour' });
    const [first = '', second = ''] = await jobsOf('ab');
    const worker = await startWorker(a);
    const got = await exchange(a, { worker, want: 10 });
    expect(ids(got)).toEqual([first]);
    expect(got.dueIn).toBeGreaterThan(3_590_000);
    expect(got.dueIn).toBeLessThan(3_600_500);
    expect(await parked()).toEqual({ [second]: 'slow' });
    expect(ids(await exchange(a, { worker, want: 10 }))).toEqual([]);
    await observer.query(
      `update pgqueue.rates set tat = tat - interval '1 hour', due_at = due_at - interval '1 hour'`,
    );
    expect(ids(await exchange(a, { worker, want: 10 }))).toEqual([second]);
  });

  it('without a burst keeps any window at or below its maximum', async () => {
    await limit({ name: '100 an hour', rate_max: 100, rate_per: '1 hour' });
    await jobsOf('a'.repeat(200));
    const worker = await startWorker(a);
    let ran = (await exchange(a, { worker, want: 500 })).jobs.length;
    expect(ran).toBe(5);
    // An hour in steps of a minute, as the clock would go.
    for (let minute = 1; minute < 60; minute += 1) {
      await observer.query(
        `update pgqueue.rates set tat = tat - interval '1 minute', due_at = due_at - interval '1 minute'`,
      );
      ran += (await exchange(a, { worker, want: 500 })).jobs.length;
    }
    expect(ran).toBeGreaterThanOrEqual(95);
    expect(ran).toBeLessThanOrEqual(100);
  });

  it('with a burst lets that many begin at once, also in two claims', async () => {
    await limit({ name: 'burst', rate_max: 60, rate_per: '1 hour', rate_burst: 10 });
    await jobsOf('a'.repeat(30));
    const worker = await startWorker(a);
    const first = await exchange(a, { worker, want: 4 });
    const second = await exchange(a, { worker, want: 100 });
    expect([first.jobs.length, second.jobs.length]).toEqual([4, 6]);
  });

  it('is charged for what begins, not for what another limit holds back', async () => {
    await limit({ name: 'a rate', rate_max: 60, rate_per: '1 hour', rate_burst: 10 });
    await limit({ name: 'slots', max_running: 2 });
    await jobsOf('abcdef');
    const worker = await startWorker(a);
    expect((await exchange(a, { worker, want: 100 })).jobs).toHaveLength(2);
    expect(
      await observer.value(
        `select round(extract(epoch from tat - clock_timestamp()) / 60)::int from pgqueue.rates`,
      ),
    ).toBe(2);
    expect(new Set(Object.values(await parked()))).toEqual(new Set(['slots']));
  });
});
