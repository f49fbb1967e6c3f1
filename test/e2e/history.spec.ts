import type { PgQueueOptions } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

const note = on('note', () => ({ noted: true }));
const secret = on('unkept', () => 'nothing of it stays', { keepDone: false });
const kept = on('kept', () => {}, { keepDone: true });

afterEach(endApps);

function reaches(app: TestApp, id: string, status: string | undefined): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

/** Names of the days that have a table, as the database sees today. */
async function days(app: TestApp): Promise<string[]> {
  const rows = await app.sql(
    `select (to_date(right(relname, 8), 'YYYYMMDD') - (now() at time zone 'utc')::date)::int as ahead
       from pg_inherits join pg_class on pg_class.oid = inhrelid
      where inhparent = 'pgqueue.done_jobs'::regclass order by 1`,
  );
  return rows.map(({ ahead }) => String(ahead));
}

/** A past day with one job in it, and a dead letter as old. */
async function addPast(app: TestApp, age: number): Promise<void> {
  const [{ table, from, to }] = await app.sql(
    `select 'done_jobs_' || to_char(day, 'YYYYMMDD') as "table", day::text as "from", (day + 1)::text as "to"
       from (select (now() at time zone 'utc')::date - $1::int as day) d`,
    [age],
  );
  await app.sql(
    `create table pgqueue.${table} partition of pgqueue.done_jobs
       for values from ('${from} 00:00:00+00') to ('${to} 00:00:00+00')`,
  );
  await app.sql(
    `insert into pgqueue.done_jobs (id, queue, kind, payload, status, priority, run_at, attempts,
            max_attempts, lease_no, created_at, finished_at)
     values ($1, 'default', 'old', '{}', 'done', 0, now(), 1, 5, 1, now(), '${from} 12:00:00+00')`,
    [age],
  );
  await app.sql(
    `insert into pgqueue.failed_jobs (id, queue, kind, payload, priority, run_at, attempts,
            max_attempts, lease_no, created_at, failed_at)
     values ($1::int, 'default', 'old', '{}', 0, now(), 5, 5, 5, now(), now() - $1::int * interval '1 day')`,
    [age],
  );
}

async function ages(app: TestApp, status: string): Promise<number[]> {
  const rows = await app.sql(
    `select id::int from pgqueue.all_jobs where kind = 'old' and status = $1 order by id`,
    [status],
  );
  return rows.map(({ id }) => id as number);
}

/** An application that finds jobs of these ages in days, when its worker starts. */
async function withPast(options: Partial<PgQueueOptions>): Promise<TestApp> {
  const web = await startWith([], { worker: false });
  for (const age of [1, 8, 20, 100]) await addPast(web, age);
  return startWith([note], { schema: web.schema, ...options });
}

describe('R14: the tables stay healthy by themselves', () => {
  it('finished jobs go to the history, with result and times, and leave the hot table', async () => {
    const app = await startWith([note]);
    const { id } = await app.queue.enqueue('note', { n: 1 });
    await reaches(app, id, 'done');
    expect(await app.sql('select id from pgqueue.jobs')).toEqual([]);
    const [row] = await app.sql(
      'select id::text, status, attempts, result, finished_at >= created_at as ordered from pgqueue.done_jobs',
    );
    expect(row).toEqual({
      id,
      status: 'done',
      attempts: 1,
      result: { noted: true },
      ordered: true,
    });
  });

  it('days are made a week ahead when the application starts', async () => {
    const app = await startWith([], { worker: false });
    expect(await days(app)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
  });

  it('done jobs go after 7 days, failed ones after 90', async () => {
    const app = await withPast({});
    await eventually(async () => expect(await ages(app, 'done')).toEqual([1]));
    await eventually(async () => expect(await ages(app, 'failed')).toEqual([1, 8, 20]));
    expect((await days(app)).filter((day) => Number(day) < 0)).toEqual(['-1']);
  });

  it('keepDone and keepFailed say otherwise', async () => {
    const app = await withPast({ keepDone: '30d', keepFailed: '10d' });
    await eventually(async () => expect(await ages(app, 'done')).toEqual([1, 8, 20]));
    await eventually(async () => expect(await ages(app, 'failed')).toEqual([1, 8]));
  });

  it('keepFailed: false keeps dead letters for ever', async () => {
    const app = await withPast({ keepFailed: false });
    await eventually(async () => expect(await ages(app, 'done')).toEqual([1]));
    await eventually(async () => {
      const rows = await app.sql(
        `select task from pgqueue.maintenance where task = 'failed' and next_at > now()`,
      );
      expect(rows).toHaveLength(1);
    });
    expect(await ages(app, 'failed')).toEqual([1, 8, 20, 100]);
  });

  it('keepDone: false of the module keeps no history, unless a handler asks for it', async () => {
    const app = await startWith([note, kept], { keepDone: false });
    const [gone, stays] = await app.queue.enqueueMany([{ kind: 'note' }, { kind: 'kept' }]);
    await reaches(app, gone?.id ?? '', undefined);
    await reaches(app, stays?.id ?? '', 'done');
    expect(await app.queue.get(gone?.id ?? '')).toBeUndefined();
  });

  it('keepDone: false of a handler keeps none of its kind', async () => {
    const app = await startWith([note, secret]);
    const [gone, stays] = await app.queue.enqueueMany([{ kind: 'unkept' }, { kind: 'note' }]);
    await reaches(app, stays?.id ?? '', 'done');
    await reaches(app, gone?.id ?? '', undefined);
    const rows = await app.sql('select kind from pgqueue.all_jobs');
    expect(rows).toEqual([{ kind: 'note' }]);
  });

  it('a day that has no table loses nothing: its jobs go to the overflow table and are seen', async () => {
    const app = await startWith([note]);
    await app.sql(
      `do $$ declare day text; begin
         for day in select inhrelid::regclass::text from pg_inherits
                     where inhparent = 'pgqueue.done_jobs'::regclass loop
           execute 'drop table ' || day;
         end loop;
       end $$`,
    );
    const { id } = await app.queue.enqueue('note', {});
    await reaches(app, id, 'done');
    expect(await app.queue.get(id)).toMatchObject({ status: 'done', result: { noted: true } });
    await eventually(async () => expect(await days(app)).toHaveLength(8));
  });

  it('autovacuum is tuned where rows come and go, with nothing to set up', async () => {
    const app = await startWith([], { worker: false });
    const [row] = await app.sql(
      `select reloptions from pg_class where oid = 'pgqueue.jobs'::regclass`,
    );
    expect(row.reloptions).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^fillfactor=/),
        expect.stringMatching(/^autovacuum_vacuum_scale_factor=0\.0/),
        'autovacuum_vacuum_cost_delay=0',
        'vacuum_truncate=off',
      ]),
    );
  });
});
