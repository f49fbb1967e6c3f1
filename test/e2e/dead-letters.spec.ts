import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

let app: TestApp;
let failing = true;

beforeAll(async () => {
  app = await startWith([
    on(
      'sync',
      () => {
        if (failing) throw new Error('the CRM is down');
        return { synced: true };
      },
      { maxAttempts: 1 },
    ),
  ]);
});
beforeEach(async () => {
  failing = true;
  await app.sql('delete from pgqueue.jobs');
  await app.sql('delete from pgqueue.failed_jobs');
});
afterAll(endApps);

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

async function failedJobs(count: number, options = {}): Promise<string[]> {
  const jobs = Array.from({ length: count }, (_, n) => ({
    kind: 'sync',
    payload: { n },
    ...options,
  }));
  const ids = (await app.queue.enqueueMany(jobs)).map(({ id }) => id);
  for (const id of ids) await reaches(id, 'failed');
  return ids;
}

describe('R9: dead letters', () => {
  it('stay with their last error, and "which jobs failed today, and why" is a SELECT', async () => {
    const [id] = await failedJobs(1);
    const rows = await app.sql(
      `select id::text, kind, payload, last_error, attempts from pgqueue.all_jobs
        where status = 'failed' and finished_at >= current_date`,
    );
    expect(rows).toEqual([
      { id, kind: 'sync', payload: { n: 0 }, last_error: 'the CRM is down', attempts: 1 },
    ]);
  });

  it('run again after retry(id), under their id and with attempts reset', async () => {
    const [id = ''] = await failedJobs(1);
    failing = false;
    expect(await app.queue.retry(id)).toEqual({ retried: [id], conflicts: [], notFailed: [] });
    await reaches(id, 'done');
    expect(await app.queue.get(id)).toMatchObject({ attempts: 1, result: { synced: true } });
    expect((await app.queue.get(id))?.errors).toMatchObject([{ message: 'the CRM is down' }]);
  });

  it('run again after retry(ids), which tells what there was not to retry', async () => {
    const ids = await failedJobs(3);
    failing = false;
    const result = await app.queue.retry([...ids, '999999999']);
    expect(result.retried.toSorted()).toEqual(ids.toSorted());
    expect(result.notFailed).toEqual(['999999999']);
    for (const id of ids) await reaches(id, 'done');
  });

  it('run again after retry(filter), as far as they match', async () => {
    const since = new Date(Date.now() - 3_600_000);
    const ids = await failedJobs(2);
    failing = false;
    const nobody = [
      { kind: 'held' },
      { queue: 'mail' },
      { failedBefore: since },
      { failedAfter: new Date(Date.now() + 3_600_000) },
    ];
    for (const filter of nobody) expect((await app.queue.retry(filter)).retried).toEqual([]);
    const all = { kind: 'sync', queue: 'default', failedAfter: since };
    expect((await app.queue.retry(all)).retried.toSorted()).toEqual(ids.toSorted());
    for (const id of ids) await reaches(id, 'done');
  });

  it('run again by the thousand, with {} for all', async () => {
    await app.sql(
      `insert into pgqueue.failed_jobs (id, queue, kind, payload, priority, run_at, attempts,
              max_attempts, lease_no, created_at, failed_at)
       select nextval('pgqueue.jobs_id_seq'), 'default', 'nobody', '{}', 0, now(), 5, 5, 5, now(), now()
         from generate_series(1, 1200)`,
    );
    expect((await app.queue.retry({})).retried).toHaveLength(1_200);
    expect((await app.queue.counts()).failed).toBe(0);
    const [row] = await app.sql(
      `select min(attempts) as low, max(attempts) as high from pgqueue.jobs`,
    );
    expect(row).toEqual({ low: 0, high: 0 });
  });

  it('stay failed while a pending job holds their dedupe key, and the answer names it', async () => {
    const [id = ''] = await failedJobs(1, { dedupe: 'contact' });
    const holder = await app.queue.enqueue('sync', {}, { dedupe: 'contact', delay: '1h' });
    expect(holder.outcome).toBe('inserted');
    expect(await app.queue.retry(id)).toEqual({
      retried: [],
      conflicts: [{ id, holder: holder.id }],
      notFailed: [],
    });
    expect([await app.status(id), await app.status(holder.id)]).toEqual(['failed', 'scheduled']);
    expect(await app.sql('select pgqueue.retry($1) as outcome', [id])).toEqual([
      { outcome: 'conflict' },
    ]);
  });

  it('run again from psql', async () => {
    const [id = ''] = await failedJobs(1);
    failing = false;
    expect(await app.sql('select pgqueue.retry($1) as outcome', [id])).toEqual([
      { outcome: 'retried' },
    ]);
    await reaches(id, 'done');
    expect(await app.sql('select pgqueue.retry($1) as outcome', [id])).toEqual([
      { outcome: 'not_failed' },
    ]);
  });

  it.each([
    ['a misspelt filter', { kinds: 'sync' }, 'filter.kinds'],
    ['a date that is none', { failedAfter: new Date(Number.NaN) }, 'filter.failedAfter'],
    ['text for a date', { failedBefore: '2027-01-01' }, 'filter.failedBefore'],
    ['an id that is no number', 'abc', 'id'],
    ['an id beyond bigint', '9223372036854775808', 'id'],
    ['a number among the ids', [1], 'id'],
  ])('%s is refused, and nothing is retried', async (_what, which, named) => {
    await failedJobs(1);
    await expect(app.queue.retry(which as never)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(named),
    });
    expect((await app.queue.counts()).failed).toBe(1);
  });
});
