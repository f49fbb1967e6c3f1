/** @jest-environment ./test/support/st-johns.environment.mjs */
import {
  DATABASE_URL,
  endApps,
  freshSchema,
  on,
  sqlIn,
  startWith,
  type TestApp,
} from '../support/app.js';
import { eventually } from '../support/eventually.js';

let app: TestApp;
const started = new Map<string, number>();

beforeAll(async () => {
  const schema = freshSchema();
  const url = new URL(DATABASE_URL);
  url.searchParams.set('options', '-c TimeZone=Asia/Kolkata');
  const clock = on('clock', async (_payload, job) => {
    const [row] = await sqlIn(
      schema,
      'select 1000 * extract(epoch from clock_timestamp())::float8 as now',
    );
    started.set(job.id, row.now as number);
  });
  app = await startWith([clock], { connectionString: url.href, schema });
});
afterAll(endApps);

/** As St. John's writes it on its clocks, without an offset. */
function localText(instant: Date): string {
  const pad = (n: number, length = 2) => String(n).padStart(length, '0');
  const day = `${instant.getFullYear()}-${pad(instant.getMonth() + 1)}-${pad(instant.getDate())}`;
  return `${day}T${pad(instant.getHours())}:${pad(instant.getMinutes())}:${pad(instant.getSeconds())}`;
}

function withOffset(instant: Date, minutes: number, sign: string, offset: string): string {
  const local = new Date(instant.getTime() + minutes * 60_000).toISOString().slice(0, -1);
  return `${local}${sign}${offset}`;
}

describe('B06: the instant of run_at is the one that was given, whatever the zones', () => {
  it('(this process lives in St. John’s)', () => {
    expect(new Date(0).getTimezoneOffset()).toBe(210);
  });

  it.each([
    ['a Date', (at: Date) => at],
    ['ISO text in UTC', (at: Date) => at.toISOString()],
    ['ISO text ending +05:30', (at: Date) => withOffset(at, 330, '+', '05:30')],
    ['ISO text ending -03:30', (at: Date) => withOffset(at, -210, '-', '03:30')],
  ])('%s', async (_what, given) => {
    const at = new Date(Date.now() + 1_234);
    const { id } = await app.queue.enqueue('clock', {}, { runAt: given(at) });
    expect((await app.queue.get(id))?.runAt).toEqual(at);
    const [row] = await app.sql(
      `select (1000 * extract(epoch from run_at))::float8 as ms, pg_typeof(run_at)::text as type
         from pgqueue.all_jobs where id = $1`,
      [id],
    );
    expect(row).toEqual({ ms: at.getTime(), type: 'timestamp with time zone' });
    const start = await eventually(() => {
      expect(started.has(id)).toBe(true);
      return started.get(id)!;
    });
    expect(start).toBeGreaterThanOrEqual(at.getTime());
    expect(start).toBeLessThan(at.getTime() + 2_000);
  });

  it.each([
    ['without an offset', (at: Date) => localText(at)],
    ['without a time', (at: Date) => at.toISOString().slice(0, 10)],
    ['that is no date', () => 'tomorrow'],
    ['of a day that there is not', () => '2027-02-30T25:00:00Z'],
  ])('text %s is refused', async (_what, given) => {
    await expect(
      app.queue.enqueue('clock', {}, { runAt: given(new Date()) }),
    ).rejects.toMatchObject({ code: 'INVALID_JOB', path: 'runAt' });
  });

  it.each([
    ['an invalid Date', new Date(Number.NaN)],
    ['a Date far beyond PostgreSQL’s', new Date(8.64e15)],
    ['a number', 1_700_000_000_000],
  ])('%s is refused', async (_what, runAt) => {
    const enqueue = app.queue.enqueue('clock', {}, { runAt: runAt as Date });
    await expect(enqueue).rejects.toMatchObject({ code: 'INVALID_JOB', path: 'runAt' });
  });
});

describe('delay', () => {
  it.each([
    [1_500, 1.5],
    ['90s', 90],
    ['2h', 7_200],
    ['60d', 5_184_000],
  ])('of %p is counted from now by the database’s clock', async (delay, seconds) => {
    const { id } = await app.queue.enqueue('later', {}, { delay: delay as number });
    const [row] = await app.sql(
      `select extract(epoch from run_at - created_at)::float8 as seconds, status
         from pgqueue.jobs where id = $1`,
      [id],
    );
    expect(row.status).toBe('scheduled');
    expect(row.seconds).toBeGreaterThanOrEqual(seconds);
    expect(row.seconds).toBeLessThan(seconds + 1);
  });

  it.each(['soon', -1, Number.NaN, Number.POSITIVE_INFINITY, '1w', null])(
    'of %p is refused',
    async (delay) => {
      const enqueue = app.queue.enqueue('later', {}, { delay: delay as unknown as number });
      await expect(enqueue).rejects.toMatchObject({ code: 'INVALID_JOB', path: 'delay' });
    },
  );

  it('together with runAt is refused', async () => {
    const enqueue = app.queue.enqueue('later', {}, { delay: 1, runAt: new Date() });
    await expect(enqueue).rejects.toMatchObject({ code: 'INVALID_JOB', path: 'delay' });
  });

  it('a run_at in the past is due at once', async () => {
    const { id } = await app.queue.enqueue('clock', {}, { runAt: new Date(0) });
    await eventually(() => expect(started.has(id)).toBe(true));
  });
});
