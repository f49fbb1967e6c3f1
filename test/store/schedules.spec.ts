import type { FirePlan, ScheduleRow } from '../../lib/store/statements/schedules.js';
import {
  createSchedule,
  declareSchedules,
  dueSchedules,
  fireSchedules,
  listSchedules,
} from '../../lib/store/statements/schedules.js';
import {
  openStore,
  startWorker,
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
beforeEach(() =>
  t.observer.query(
    `truncate pgqueue.jobs, pgqueue.schedules, pgqueue.schedule_slots, pgqueue.schedule_declarations,
              pgqueue.workers`,
  ),
);

const MINUTE = 60_000;

function row(fields: Partial<ScheduleRow> = {}): ScheduleRow {
  return {
    name: 's',
    kind: 'k',
    queue: 'default',
    payload: '{"a":1}',
    priority: null,
    maxAttempts: null,
    cron: '* * * * *',
    everyMs: null,
    timeZone: 'UTC',
    startsAt: null,
    endsAt: null,
    catchUp: 'latest',
    ...fields,
  };
}

/** A minute of the database's clock that has begun, in milliseconds. */
async function thisMinute(): Promise<number> {
  return Number(
    await t.observer.value(
      `select 1000 * extract(epoch from date_trunc('minute', clock_timestamp()))::float8`,
    ),
  );
}

/** A schedule that is due now. */
async function dueSchedule(fields: Partial<ScheduleRow> = {}): Promise<void> {
  await a.run(createSchedule, row(fields));
  await a.query(
    `update pgqueue.schedules set handled_to = date_trunc('minute', clock_timestamp()) - interval '1 s'
      where name = $1`,
    [fields.name ?? 's'],
  );
}

/** One after the other, since they share a connection. */
async function plansFor(slot: number, names: readonly string[]): Promise<FirePlan[]> {
  const plans: FirePlan[] = [];
  for (const name of names) plans.push(await planFor(slot, { name }));
  return plans;
}

async function planFor(slot: number, fields: Partial<FirePlan> = {}): Promise<FirePlan> {
  const turn = await t.observer.value<number>(
    'select turn from pgqueue.schedules where name = $1',
    [fields.name ?? 's'],
  );
  return {
    name: 's',
    turn,
    slots: [slot],
    handledTo: slot,
    next: slot + MINUTE,
    ...fields,
  };
}

const jobs = (): Promise<{ kind: string; slot: string; name: string }[]> =>
  t.observer.rows(
    `select kind, meta #>> '{schedule,slot}' as slot, meta #>> '{schedule,name}' as name
       from pgqueue.jobs order by id`,
  );

async function declare(
  session: Session,
  rows: readonly ScheduleRow[],
  { age = 0, worker }: { age?: number; worker?: string } = {},
): Promise<string> {
  const id = worker ?? (await startWorker(session, { kinds: ['k'] }));
  await session.run(declareSchedules, { worker: id, age, schedules: rows });
  return id;
}

const statuses = async (): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await t.observer.run(listSchedules, undefined)).map(({ name, status }) => [name, status]),
  );

const cronOf = (name: string): Promise<string> =>
  t.observer.value('select cron from pgqueue.schedules where name = $1', [name]);

describe('one slot, one job', () => {
  test('B46: of two plans for a slot, the second finds that the schedule has moved on', async () => {
    const slot = await thisMinute();
    await dueSchedule();
    const plan = await planFor(slot);
    expect(await a.run(fireSchedules, [plan])).toEqual([
      { name: 's', outcome: 'planned', fired: 1 },
    ]);
    expect(await b.run(fireSchedules, [plan])).toEqual([
      { name: 's', outcome: 'passed', fired: 0 },
    ]);
    expect(await jobs()).toEqual([{ kind: 'k', slot: new Date(slot).toISOString(), name: 's' }]);
  });

  test('B46: while one process fires it, another passes over it without waiting', async () => {
    const slot = await thisMinute();
    await dueSchedule();
    const plan = await planFor(slot);
    await a.begin();
    await a.run(fireSchedules, [plan]);
    expect(await b.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'busy', fired: 0 }]);
    await a.commit();
    expect(await b.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'passed', fired: 0 }]);
    expect(await jobs()).toHaveLength(1);
  });

  test('B46: what one process rolled back, another fires', async () => {
    const slot = await thisMinute();
    await dueSchedule();
    const plan = await planFor(slot);
    await a.begin();
    await a.run(fireSchedules, [plan]);
    await a.rollback();
    expect(await b.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'planned', fired: 1 }]);
  });

  test('B46: a timer that is early by its own clock fires nothing, and moves no mark', async () => {
    const slot = (await thisMinute()) + MINUTE;
    await dueSchedule();
    const plan = await planFor(slot);
    expect(await a.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'early', fired: 0 }]);
    await t.observer.query(`update pgqueue.schedules set handled_to = handled_to - interval '1 h'`);
    const now = await planFor(slot - MINUTE);
    expect(await a.run(fireSchedules, [now])).toMatchObject([{ outcome: 'planned', fired: 1 }]);
  });

  test('the row of the slot decides even where the mark was set back by hand', async () => {
    const slot = await thisMinute();
    await dueSchedule();
    await a.run(fireSchedules, [await planFor(slot)]);
    await a.query(`update pgqueue.schedules set handled_to = handled_to - interval '1 h'`);
    expect(await b.run(fireSchedules, [await planFor(slot)])).toMatchObject([{ fired: 0 }]);
    expect(await jobs()).toHaveLength(1);
  });

  test('a plan from before a change of the schedule does nothing', async () => {
    const slot = await thisMinute();
    await dueSchedule();
    const plan = await planFor(slot);
    await b.query(`update pgqueue.schedules set payload = '{"a":2}'`);
    expect(await a.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'passed', fired: 0 }]);
    expect(await jobs()).toEqual([]);
  });

  test('a pause that commits before the plan wins, one after it comes too late', async () => {
    const slot = await thisMinute();
    await dueSchedule();
    const plan = await planFor(slot);
    await b.begin();
    await b.query(`update pgqueue.schedules set paused_at = now()`);
    expect(await a.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'busy' }]);
    await b.commit();
    expect(await a.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'passed' }]);
    expect(await jobs()).toEqual([]);
  });
});

describe('B51: one bad schedule', () => {
  test('that the database refuses to make a job of does not hold up the others', async () => {
    await t.observer.query(
      `create function pgqueue.refuse() returns trigger language plpgsql as $$
       begin raise exception 'no more of these'; end $$;
       create trigger refuse before insert on pgqueue.jobs for each row when (new.kind = 'bad')
         execute function pgqueue.refuse();`,
    );
    const slot = await thisMinute();
    for (const name of ['a', 'b', 'c'])
      await dueSchedule({ name, kind: name === 'b' ? 'bad' : 'k' });
    const plans = await plansFor(slot, ['a', 'b', 'c']);
    expect(await a.run(fireSchedules, plans)).toEqual([
      { name: 'a', outcome: 'planned', fired: 1 },
      { name: 'b', outcome: 'refused: no more of these', fired: 0 },
      { name: 'c', outcome: 'planned', fired: 1 },
    ]);
    const list = await t.observer.run(listSchedules, undefined);
    expect(list.map(({ problem }) => problem)).toEqual([null, 'no more of these', null]);
    const [{ dueIn } = { dueIn: 0 }] = await a.run(dueSchedules, 10);
    expect(dueIn).toBeGreaterThan(0);
    await t.observer.query('drop trigger refuse on pgqueue.jobs');
  });

  test('whose row somebody has locked does not hold up the others', async () => {
    const slot = await thisMinute();
    for (const name of ['a', 'b']) await dueSchedule({ name });
    const plans = await plansFor(slot, ['a', 'b']);
    await b.begin();
    await b.query(`select from pgqueue.schedules where name = 'a' for update`);
    expect(await a.run(fireSchedules, plans)).toMatchObject([
      { name: 'a', outcome: 'busy' },
      { name: 'b', outcome: 'planned' },
    ]);
    await b.rollback();
  });

  test('whose row somebody has locked holds up neither newer code nor a worker that comes', async () => {
    const rows = ['A', 'B'].map((name) => row({ name, cron: '0 * * * *' }));
    await declare(a, rows);
    await b.begin();
    await b.query(`select from pgqueue.schedules where name = 'A' for update`);
    await declare(
      a,
      rows.map((old) => ({ ...old, cron: '30 * * * *' })),
    );
    expect([await cronOf('A'), await cronOf('B')]).toEqual(['0 * * * *', '30 * * * *']);
    await b.rollback();
    await a.run(dueSchedules, 10);
    expect(await cronOf('A')).toBe('30 * * * *');
  });

  test.each(['starts_at', 'ends_at', 'handled_to'])(
    'with %s at infinity can be listed and looked at',
    async (column) => {
      await dueSchedule();
      await t.observer.query(`update pgqueue.schedules set ${column} = 'infinity', next_at = null`);
      const [{ due } = { due: [] }] = await a.run(dueSchedules, 10);
      expect(due).toHaveLength(1);
      expect(await a.run(listSchedules, undefined)).toHaveLength(1);
    },
  );
});

describe('B53: what code declares', () => {
  const old = row({ name: 'A', cron: '0 * * * *' });
  const other = row({ name: 'B' });
  const newer = row({ name: 'A', cron: '30 * * * *' });

  test('the newer process wins, also when the older one says it again', async () => {
    const first = await declare(a, [old, other]);
    await declare(b, [newer]);
    expect(await cronOf('A')).toBe('30 * * * *');
    // The older process has lost its lease and begins another life: it is an hour old.
    await t.observer.query('update pgqueue.workers set dead_at = now() where id = $1', [first]);
    await declare(a, [old, other], { age: 60 * MINUTE });
    expect(await cronOf('A')).toBe('30 * * * *');
    await a.run(dueSchedules, 10);
    expect(await cronOf('A')).toBe('30 * * * *');
  });

  test('one that no live worker declares stops; the others and those made by hand go on', async () => {
    const first = await declare(a, [old, other]);
    await a.run(createSchedule, row({ name: 'by hand' }));
    const second = await declare(b, [newer, row({ name: 'C' })]);
    expect(await statuses()).toEqual({
      A: 'active',
      B: 'active',
      C: 'active',
      'by hand': 'active',
    });
    await t.observer.query('delete from pgqueue.workers where id = $1', [first]);
    expect(await statuses()).toEqual({
      A: 'active',
      B: 'stopped',
      C: 'active',
      'by hand': 'active',
    });
    const due = async () =>
      (await a.run(dueSchedules, 10))[0]!.due.map(({ name }) => name).toSorted();
    expect(await due()).toEqual(['A', 'C', 'by hand']);
    await t.observer.query('update pgqueue.workers set dead_at = now() where id = $1', [second]);
    expect(await due()).toEqual(['by hand']);
  });

  test('a plan from when it was still declared does nothing', async () => {
    const worker = await declare(a, [other]);
    const slot = await thisMinute();
    await a.query(
      `update pgqueue.schedules set handled_to = date_trunc('minute', clock_timestamp()) - interval '1 s'`,
    );
    const plan = await planFor(slot, { name: 'B' });
    await t.observer.query('update pgqueue.workers set dead_at = now()');
    expect(await b.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'passed', fired: 0 }]);
    await t.observer.query('update pgqueue.workers set dead_at = null where id = $1', [worker]);
    expect(await b.run(fireSchedules, [plan])).toMatchObject([{ outcome: 'planned', fired: 1 }]);
  });

  test('when the newest process is gone, what the next one says counts again', async () => {
    await declare(a, [old]);
    const second = await declare(b, [newer]);
    await t.observer.query('delete from pgqueue.workers where id = $1', [second]);
    await a.run(dueSchedules, 10);
    expect(await cronOf('A')).toBe('0 * * * *');
  });

  test('a look that began before newer code came does not bring the older back', async () => {
    await declare(a, [old]);
    const second = await declare(b, [newer]);
    // A process sees that the newer one is gone, while a third, newest one is just coming.
    const third = await startWorker(t.observer, { kinds: ['k'] });
    await b.begin();
    await declare(b, [row({ name: 'A', cron: '45 * * * *' })], { worker: third });
    await t.observer.query('update pgqueue.workers set dead_at = now() where id = $1', [second]);
    const look = a.run(dueSchedules, 10);
    await untilWaiting(t.observer, a);
    await b.commit();
    await look;
    expect(await cronOf('A')).toBe('45 * * * *');
  });

  test('a schedule made by hand is not taken over by code that declares its name', async () => {
    await a.run(createSchedule, row({ name: 'A', cron: '5 * * * *' }));
    const worker = await startWorker(a, { kinds: ['k'] });
    const taken = await a.run(declareSchedules, { worker, age: 0, schedules: [newer] });
    expect(taken).toEqual(['A']);
    expect(await cronOf('A')).toBe('5 * * * *');
  });

  test('a new pattern counts from now on; a new payload leaves a missed slot to be made up for', async () => {
    await declare(a, [old]);
    const handledTo = () =>
      t.observer.value<Date>(`select handled_to from pgqueue.schedules where name = 'A'`);
    await t.observer.query(
      `update pgqueue.schedules set handled_to = clock_timestamp() - interval '3 h'`,
    );
    const before = await handledTo();
    await declare(b, [{ ...old, payload: '{"a":2}' }]);
    expect(await handledTo()).toEqual(before);
    await declare(b, [newer]);
    expect((await handledTo()).getTime()).toBeGreaterThan(before.getTime() + 2 * 3_600_000);
  });

  test('what was declared by workers that have no row any more is forgotten', async () => {
    const first = await declare(a, [old]);
    await t.observer.query('delete from pgqueue.workers');
    await declare(b, [newer]);
    const workers = await t.observer.rows<{ worker: string }>(
      'select worker from pgqueue.schedule_declarations',
    );
    expect(workers).toHaveLength(1);
    expect(workers[0]?.worker).not.toBe(first);
  });
});

describe('by hand', () => {
  test('an insert is a complete schedule, and rings', async () => {
    const heard: string[] = [];
    await b.query(`listen "${await b.value<string>('select pgqueue.doorbell()')}"`);
    b.client.on('notification', ({ payload }) => heard.push(payload ?? 'none'));
    await a.query(
      `insert into pgqueue.schedules (name, kind, cron) values ('psql', 'k', '@daily')`,
    );
    await b.query('select 1');
    expect(heard).toEqual(['']);
    expect((await a.run(dueSchedules, 10))[0]?.due).toMatchObject([
      { name: 'psql', isHandled: false },
    ]);
  });

  test('one that goes on after a pause begins with the first slot after now', async () => {
    await dueSchedule();
    const before = Date.now() - 5_000;
    await a.query('update pgqueue.schedules set paused_at = now()');
    expect(await a.run(dueSchedules, 10)).toEqual([undefined]);
    await a.query('update pgqueue.schedules set paused_at = null');
    const [state] = (await a.run(dueSchedules, 10))[0]?.due ?? [];
    expect(state?.handledTo).toBeGreaterThan(before);
  });

  test('run_schedule makes a job, and answers null where there is no schedule', async () => {
    await dueSchedule();
    const id = await a.value<string>(`select pgqueue.run_schedule('s')`);
    expect(id).toMatch(/^\d+$/);
    expect(await a.value(`select pgqueue.run_schedule('none')`)).toBeNull();
    expect(await jobs()).toMatchObject([{ kind: 'k', name: 's' }]);
  });
});

test('where no schedule can fire there is no next time', async () => {
  expect(await a.run(dueSchedules, 10)).toEqual([undefined]);
  await a.run(createSchedule, row());
  await t.observer.query('update pgqueue.schedules set paused_at = now()');
  expect(await a.run(dueSchedules, 10)).toEqual([undefined]);
});
