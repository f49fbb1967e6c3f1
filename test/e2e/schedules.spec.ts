import { Injectable, type Type } from '@nestjs/common';
import {
  JobHandler,
  JobSchedule,
  type JobContext,
  type JobScheduleOptions,
  type ScheduleTimes,
} from 'nestjs-pg-queue';
import { endApps, freshSchema, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';

afterEach(endApps);

const EACH_SECOND = '* * * * * *';
const FAR = '0 0 1 1 *';

/** A provider whose one method handles the kind, with a schedule for each entry. */
function scheduled(
  kind: string,
  schedules: readonly (readonly [string | ScheduleTimes, JobScheduleOptions?])[],
  run: (payload: unknown, job: JobContext) => unknown = () => {},
): Type {
  @Injectable()
  class Scheduled {
    @JobHandler(kind)
    handle(payload: unknown, job: JobContext): unknown {
      return run(payload, job);
    }
  }
  for (const [times, options] of schedules) {
    JobSchedule(times, options)(
      Scheduled.prototype,
      'handle',
      Object.getOwnPropertyDescriptor(Scheduled.prototype, 'handle')!,
    );
  }
  return Scheduled;
}

/** Jobs that schedules made, wherever they stand, in order. */
function made(app: TestApp): Promise<{ name: string; slot: string; payload: unknown }[]> {
  return app.sql(
    `select meta #>> '{schedule,name}' as name, meta #>> '{schedule,slot}' as slot, payload
       from pgqueue.all_jobs order by id`,
  ) as Promise<never>;
}

/** As if nobody had fired since: slots of that time are missed. The workers are told as by any change. */
async function missSince(app: TestApp, name: string, since: string): Promise<void> {
  await app.sql(
    `update pgqueue.schedules set handled_to = ${since}, next_at = null, turn = turn + 1 where name = $1`,
    [name],
  );
  await app.sql(`select pg_notify(pgqueue.doorbell(), '')`);
}

/** Resolves when a worker has planned the schedule. */
function planned(app: TestApp, name: string): Promise<void> {
  return eventually(async () => {
    const [row] = await app.sql('select next_at from pgqueue.schedules where name = $1', [name]);
    expect(row?.next_at).not.toBeNull();
    expect(row).toBeDefined();
  });
}

describe('B46: one job for each slot, however many processes', () => {
  it('three replicas, one restarted within the same minute: one job, told the nominal minute', async () => {
    const slots: (Date | undefined)[] = [];
    const handler = scheduled('tick', [['* * * * *']], (_payload, job) => slots.push(job.slot));
    const app = await startWith([handler]);
    const same = { schema: app.schema };
    await startWith([handler], same);
    const third = await startWith([handler], same);
    await planned(app, 'tick');
    await missSince(app, 'tick', `date_trunc('minute', clock_timestamp()) - interval '1 s'`);
    await eventually(() => expect(slots.length).toBeGreaterThan(0));
    await third.close();
    await startWith([handler], same);
    await planned(app, 'tick');

    const jobs = await made(app);
    expect(new Set(jobs.map(({ slot }) => slot)).size).toBe(jobs.length);
    expect(slots[0]?.getTime()).toBe(new Date(jobs[0]?.slot ?? 0).getTime());
    expect((slots[0]?.getTime() ?? 1) % 60_000).toBe(0);
    // A minute may have ended meanwhile: what fired for it is another slot.
    expect(jobs.length).toBeLessThanOrEqual(2);
    expect(log.text).not.toMatch(/^(warn|error): .*(schedule|duplicate)/im);
  });

  it('three replicas and seconds: each slot once, none left out, within 50 ms', async () => {
    const late: number[] = [];
    const everySecond = [[EACH_SECOND, { catchUp: 'all' }]] as const;
    const handler = scheduled('tick', everySecond, async (_payload, job) => {
      const [row] = await app.sql(
        'select 1000 * extract(epoch from clock_timestamp())::float8 as now',
      );
      late.push(row.now - (job.slot?.getTime() ?? 0));
    });
    const app = await startWith([handler]);
    await startWith([handler], { schema: app.schema });
    await startWith([handler], { schema: app.schema });
    // The first ones are compiled, and a busy machine may hold up some.
    await eventually(
      () => {
        expect(late.length).toBeGreaterThanOrEqual(5);
        const median = late.slice(-5).toSorted((x, y) => x - y)[2];
        expect(median).toBeLessThan(50);
      },
      { timeout: 25_000 },
    );
    const slots = (await made(app)).map(({ slot }) => new Date(slot).getTime());
    const first = slots[0] ?? 0;
    expect(slots).toEqual(slots.map((_, n) => first + n * 1_000));
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
  });
});

describe('B51: one bad schedule stops no other', () => {
  it('five good ones fire, and the bad ones are reported by name', async () => {
    const app = await startWith([on('good', () => {})]);
    await app.sql(
      `insert into pgqueue.schedules (name, kind, cron, time_zone) values ('phobos', 'good', '* * * * * *', 'Mars/Phobos')`,
    );
    await app.sql(
      `insert into pgqueue.schedules (name, kind, cron) values ('orphan', 'nobody', '* * * * * *'), ('nonsense', 'good', 'x')`,
    );
    for (let n = 1; n <= 5; n += 1) {
      await app.queue.schedules.create({ name: `good ${n}`, kind: 'good', cron: EACH_SECOND });
    }
    await eventually(async () => {
      const names = new Set((await made(app)).map(({ name }) => name));
      expect([...names].toSorted()).toEqual(['good 1', 'good 2', 'good 3', 'good 4', 'good 5']);
    });
    expect(log.text).toMatch(
      /warn: The schedule 'phobos' can't fire: the time zone 'Mars\/Phobos'/,
    );
    expect(log.text).toMatch(
      /warn: The schedule 'orphan' can't fire: no live worker handles the kind 'nobody'/,
    );
    expect(log.text).toMatch(/warn: The schedule 'nonsense' can't fire: it has 1 fields/);
    const list = await app.queue.schedules.list();
    expect(list.find(({ name }) => name === 'phobos')).toMatchObject({
      problem: expect.stringContaining('Mars/Phobos'),
      nextSlot: null,
    });
  });

  it('they are reported again at the next pass over them', async () => {
    const app = await startWith([on('good', () => {})]);
    await app.sql(
      `insert into pgqueue.schedules (name, kind, cron, time_zone) values ('phobos', 'good', '@daily', 'Mars/Phobos')`,
    );
    const reports = () => log.lines.filter((line) => line.includes("'phobos' can't fire")).length;
    await eventually(() => expect(reports()).toBe(1));
    await missSince(app, 'phobos', 'now()');
    await eventually(() => expect(reports()).toBe(2));
  });

  it('a schedule whose kind is handled by a worker that comes later fires then', async () => {
    const app = await startWith([on('other', () => {})]);
    await app.queue.schedules.create({ name: 'later', kind: 'later', cron: EACH_SECOND });
    await eventually(() => expect(log.text).toContain("'later' can't fire"));
    const slots: (Date | undefined)[] = [];
    await startWith([on('later', (_payload, job) => slots.push(job.slot))], { schema: app.schema });
    await eventually(() => expect(slots.length).toBeGreaterThan(0));
    expect((await app.queue.schedules.list())[0]).toMatchObject({ problem: null });
  });

  it('creating one with a bad zone is refused, before any SQL', async () => {
    const app = await startWith([], { worker: false });
    const bad = { name: 'n', kind: 'k', cron: '@daily', timeZone: 'Mars/Phobos' };
    await expect(app.queue.schedules.create(bad)).rejects.toMatchObject({
      code: 'INVALID_SCHEDULE',
      message: expect.stringContaining("'Mars/Phobos'"),
    });
    expect(await app.queue.schedules.list()).toEqual([]);
  });

  it('declaring one with a bad zone stops the start, naming the method', async () => {
    const bad = scheduled('tick', [['@daily', { timeZone: 'Mars/Phobos' }]]);
    await expect(startWith([bad])).rejects.toMatchObject({
      code: 'INVALID_SCHEDULE',
      message: expect.stringMatching(/^@JobSchedule on Scheduled\.handle: .*Mars\/Phobos/),
    });
  });
});

describe('B52: slots that were missed', () => {
  it('while nobody lived: fired once, late; and a redeploy does not fire it again', async () => {
    const handler = scheduled('noon', [[FAR]]);
    const first = await startWith([handler]);
    await planned(first, 'noon');
    await first.close();
    const again = { schema: first.schema };
    await first.sql(
      `update pgqueue.schedules set handled_to = '2026-01-01T00:00:00Z'::timestamptz - interval '2 s', next_at = '2026-01-01T00:00:00Z'`,
    );
    const second = await startWith([handler], again);
    await eventually(async () => expect(await made(second)).toHaveLength(1));
    await second.close();
    const third = await startWith([handler], again);
    // When this one has fired, that worker has looked at all that was due.
    await third.queue.schedules.create({ name: 'probe', kind: 'noon', cron: EACH_SECOND });
    await eventually(async () => {
      const names = (await made(third)).map(({ name }) => name);
      expect(names).toContain('probe');
      expect(names.filter((name) => name === 'noon')).toHaveLength(1);
    });
  });

  it.each([
    ['skip', 0],
    ['latest', 1],
    ['all', 100],
  ] as const)('three hours of minutes by `%s`: %d jobs', async (catchUp, expected) => {
    const app = await startWith([on('tick', () => {})]);
    // Far from the beginning of a minute, whose own slot would be on time.
    await eventually(
      async () => {
        const [row] = await app.sql('select extract(second from clock_timestamp())::float8 as s');
        expect(row.s).toBeGreaterThan(3);
        expect(row.s).toBeLessThan(50);
      },
      { timeout: 20_000 },
    );
    const name = 'tick';
    await app.queue.schedules.create({ name, kind: 'tick', cron: '* * * * *', catchUp });
    await planned(app, name);
    const [{ turn }] = await app.sql('select turn from pgqueue.schedules');
    await missSince(app, name, `clock_timestamp() - interval '3 h'`);
    await eventually(async () => {
      const [row] = await app.sql('select turn from pgqueue.schedules');
      expect(row.turn).toBe(turn + 2);
    });
    const jobs = await made(app);
    expect(jobs).toHaveLength(expected);
    expect(jobs.map(({ slot }) => slot)).toEqual(jobs.map(({ slot }) => slot).toSorted());
  });
});

describe('B53: what code declares', () => {
  it('a redeploy beside an old replica: the newer code counts, without flapping or a double fire', async () => {
    const worker = { lease: 600, heartbeat: 100 };
    const v1 = await startWith([scheduled('a', [[EACH_SECOND]]), scheduled('b', [[FAR]])], {
      worker,
      schema: freshSchema(),
    });
    await v1.queue.schedules.create({ name: 'by hand', kind: 'a', cron: FAR });
    await eventually(async () => expect((await made(v1)).length).toBeGreaterThan(0));
    const v2 = await startWith([scheduled('a', [['*/2 * * * * *']]), scheduled('c', [[FAR]])], {
      worker,
      schema: v1.schema,
    });
    const cronOfA = async () => {
      const [row] = await v1.sql(`select cron from pgqueue.schedules where name = 'a'`);
      return row?.cron as string;
    };
    const states = async () =>
      Object.fromEntries(
        (await v2.queue.schedules.list()).map(({ name, status }) => [name, status] as const),
      );
    await eventually(async () => expect(await cronOfA()).toBe('*/2 * * * * *'));
    expect(await states()).toEqual({ a: 'active', b: 'active', c: 'active', 'by hand': 'active' });

    // The old replica loses its lease and begins another life: its code is no newer for that.
    const oldLives = async () =>
      (await v1.sql('select id from pgqueue.workers order by started_at, id')).map(({ id }) => id);
    const [oldest] = await oldLives();
    await v1.sql('update pgqueue.workers set dead_at = clock_timestamp() where id = $1', [oldest]);
    await eventually(async () => {
      const [row] = await v1.sql(
        `select count(distinct worker)::int as workers from pgqueue.schedule_declarations d
           join pgqueue.workers w on w.id = d.worker where w.dead_at is null`,
      );
      expect(row.workers).toBe(2);
    });
    expect(await cronOfA()).toBe('*/2 * * * * *');

    await v1.close();
    await eventually(async () =>
      expect(await states()).toEqual({
        a: 'active',
        b: 'stopped',
        c: 'active',
        'by hand': 'active',
      }),
    );
    const slots = (await made(v2)).map(({ name, slot }) => `${name} ${slot}`);
    expect(new Set(slots).size).toBe(slots.length);
  });
});

describe('queue.schedules', () => {
  it('a process that does not work manages what workers fire', async () => {
    const ran: unknown[] = [];
    const app = await startWith([on('report', (payload, job) => ran.push([payload, job.meta]))]);
    const web = await startWith([], { worker: false, schema: app.schema });
    const { schedules } = web.queue;
    await schedules.create({ name: 'r', kind: 'report', every: '1s', payload: { n: 1 } });
    await eventually(() => expect(ran.length).toBeGreaterThanOrEqual(2));
    expect(ran[0]).toEqual([{ n: 1 }, { schedule: { name: 'r', slot: expect.any(String) } }]);

    await schedules.update('r', { payload: { n: 2 } });
    await eventually(() => expect(ran.at(-1)).toMatchObject([{ n: 2 }, {}]));
    await schedules.update('r', { cron: FAR, timeZone: 'Asia/Tokyo' });
    await eventually(async () =>
      expect(await schedules.list()).toMatchObject([
        {
          name: 'r',
          cron: FAR,
          every: null,
          timeZone: 'Asia/Tokyo',
          payload: { n: 2 },
          status: 'active',
          isDeclared: false,
          nextSlot: expect.any(Date),
          lastSlot: expect.any(Date),
        },
      ]),
    );
    const [{ nextSlot } = { nextSlot: null }] = await schedules.list();
    expect(nextSlot?.toISOString()).toMatch(/-12-31T15:00:00.000Z$/);

    await schedules.pause('r');
    expect(await schedules.list()).toMatchObject([{ status: 'paused', nextSlot: null }]);
    const { id } = await schedules.runNow('r');
    await eventually(async () => expect(await app.status(id)).toBe('done'));
    await schedules.resume('r');
    expect(await schedules.list()).toMatchObject([{ status: 'active' }]);
    expect(await schedules.remove('r')).toBe(true);
    expect(await schedules.remove('r')).toBe(false);
    expect(await schedules.list()).toEqual([]);
  });

  it('a schedule that has ended says so, and fires no more', async () => {
    const app = await startWith([on('k', () => {})]);
    const end = new Date(Date.now() + 1_500);
    await app.queue.schedules.create({ name: 'short', kind: 'k', cron: EACH_SECOND, end });
    await eventually(async () =>
      expect(await app.queue.schedules.list()).toMatchObject([{ status: 'ended', nextSlot: null }]),
    );
    for (const { slot } of await made(app)) {
      expect(new Date(slot).getTime()).toBeLessThanOrEqual(end.getTime());
    }
  });

  it('names what is there already, what is not there, and what only code can change', async () => {
    const app = await startWith([scheduled('nightly', [['0 3 * * *', { payload: { a: 1 } }]])]);
    const { schedules } = app.queue;
    await eventually(async () =>
      expect(await schedules.list()).toMatchObject([
        { name: 'nightly', kind: 'nightly', isDeclared: true, payload: { a: 1 } },
      ]),
    );
    const nightly = { name: 'nightly', kind: 'nightly', cron: '@daily' };
    const failsWith = (code: string) => expect.objectContaining({ code });
    await expect(schedules.create(nightly)).rejects.toEqual(failsWith('SCHEDULE_EXISTS'));
    await expect(schedules.update('nightly', {})).rejects.toEqual(failsWith('SCHEDULE_DECLARED'));
    await expect(schedules.remove('nightly')).rejects.toEqual(failsWith('SCHEDULE_DECLARED'));
    for (const call of ['pause', 'resume', 'runNow'] as const) {
      await expect(schedules[call]('none')).rejects.toEqual(failsWith('SCHEDULE_NOT_FOUND'));
    }
    await expect(schedules.update('none', {})).rejects.toEqual(failsWith('SCHEDULE_NOT_FOUND'));
    await expect(schedules.pause('a\0')).rejects.toEqual(failsWith('INVALID_SCHEDULE'));
    // A pause is nobody's declaration: it stays when the code comes again.
    await schedules.pause('nightly');
    await app.close();
    const next = await startWith([scheduled('nightly', [['0 4 * * *']])], { schema: app.schema });
    await eventually(async () =>
      expect(await next.queue.schedules.list()).toMatchObject([
        { cron: '0 4 * * *', status: 'paused' },
      ]),
    );
  });

  it('a drain fires nothing, and declares nothing', async () => {
    const app = await startWith([scheduled('tick', [[EACH_SECOND]])], { worker: false });
    await app.queue.drain();
    expect(await app.queue.schedules.list()).toEqual([]);
  });
});

it('the example of docs/schedules.md', async () => {
  const sent: unknown[] = [];
  @Injectable()
  class Reports {
    private readonly mail = { send: async (...what: unknown[]) => void sent.push(what) };

    @JobHandler('nightly_report')
    @JobSchedule('0 3 * * *', { timeZone: 'Europe/Madrid', payload: { format: 'pdf' } })
    async send(payload: { format: string }, job: JobContext) {
      await this.mail.send(payload.format, job.slot); // 03:00 of that night, however late this runs
    }

    @JobHandler('sync')
    sync(payload: { customer: number }) {
      sent.push(payload);
    }
  }
  const app = await startWith([Reports]);
  await planned(app, 'nightly_report');
  await missSince(app, 'nightly_report', `clock_timestamp() - interval '2 days'`);
  await eventually(() => expect(sent).toEqual([['pdf', expect.any(Date)]]));
  const [[, slot]] = sent as [[string, Date]];
  expect(slot.toLocaleTimeString('en-GB', { timeZone: 'Europe/Madrid' })).toBe('03:00:00');

  const { queue } = app;
  await queue.schedules.create({
    name: 'sync 42',
    kind: 'sync',
    every: '5m',
    payload: { customer: 42 },
  });
  await queue.schedules.update('sync 42', { every: '1m' });
  await queue.schedules.pause('sync 42');
  await queue.schedules.resume('sync 42');
  const { id } = await queue.schedules.runNow('sync 42');
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  expect(sent.at(-1)).toEqual({ customer: 42 });
  await queue.schedules.remove('sync 42');
  expect((await queue.schedules.list()).map(({ name }) => name)).toEqual(['nightly_report']);
});

it('B49: a slot and a job in sixty days: no warning of a timer, no run', async () => {
  const warnings: string[] = [];
  const note = (warning: Error) => void warnings.push(warning.name);
  process.on('warning', note);
  const ran: string[] = [];
  const app = await startWith([on('k', (_payload, job) => ran.push(job.id))]);
  const days = (n: number) => new Date(Date.now() + n * 86_400_000);
  await app.queue.schedules.create({ name: 'far', kind: 'k', every: '60d', start: days(60) });
  await app.queue.enqueue('k', {}, { runAt: days(60) });
  await planned(app, 'far');
  const { id } = await app.queue.enqueue('k', {});
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  expect(ran).toEqual([id]);
  await app.close();
  process.off('warning', note);
  expect(warnings).not.toContain('TimeoutOverflowWarning');
});
