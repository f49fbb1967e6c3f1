import { eventually } from '../support/eventually.js';
import { DATABASE_URL, endApps, freshSchema, on, startWith } from '../support/app.js';

afterEach(endApps);

/** Runs nothing for long, and keeps the most that ran at once, in all and for each tenant. */
class Watch {
  ran = 0;
  private running = new Map<string, number>();
  readonly most = { inAll: 0, perTenant: 0 };
  readonly began: number[] = [];

  readonly run = async (payload: unknown): Promise<void> => {
    const { tenant } = payload as { tenant: string };
    this.began.push(performance.now());
    this.running.set(tenant, (this.running.get(tenant) ?? 0) + 1);
    const counts = [...this.running.values()];
    this.most.inAll = Math.max(
      this.most.inAll,
      counts.reduce((sum, n) => sum + n, 0),
    );
    this.most.perTenant = Math.max(this.most.perTenant, ...counts);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    this.running.set(tenant, (this.running.get(tenant) ?? 1) - 1);
    this.ran += 1;
  };
}

test('limits of a handler hold over two applications, in all and for each tenant', async () => {
  const schema = freshSchema();
  const watch = new Watch();
  const options = {
    limits: [{ maxRunning: 3 }, { by: 'tenant', maxRunning: 1 }],
  };
  const [one] = await Promise.all([
    startWith([on('sync', watch.run, options)], { schema }),
    startWith([on('sync', watch.run, options)], { schema }),
  ]);
  const jobs = Array.from({ length: 200 }, (_, n) => ({
    kind: 'sync',
    payload: { tenant: `t${n % 4}` },
  }));
  await one.queue.enqueueMany(jobs);
  await eventually(async () => expect(watch.ran).toBe(200), { timeout: 20_000 });
  expect(watch.most.inAll).toBeLessThanOrEqual(3);
  expect(watch.most.inAll).toBeGreaterThanOrEqual(2);
  expect(watch.most.perTenant).toBe(1);
  await eventually(async () => {
    expect(await one.sql('select count(*)::int as n from pgqueue.holds')).toEqual([{ n: 0 }]);
    expect(await one.sql('select count(*)::int as n from pgqueue.jobs')).toEqual([{ n: 0 }]);
  });
});

test('a rate is kept over two applications, and never passed', async () => {
  const schema = freshSchema();
  const watch = new Watch();
  const options = { limits: { rate: { max: 50, per: '1s' } } } as const;
  const [one] = await Promise.all([
    startWith([on('call', watch.run, options)], { schema }),
    startWith([on('call', watch.run, options)], { schema }),
  ]);
  await one.queue.enqueueMany(
    Array.from({ length: 100 }, () => ({ kind: 'call', payload: { tenant: 'x' } })),
  );
  await eventually(async () => expect(watch.ran).toBe(100), { timeout: 20_000 });
  const began = watch.began.toSorted((x, y) => x - y);
  for (const [index, from] of began.entries()) {
    // A handler begins a little after its claim, which is what counts: so the windows are a little shorter.
    const inWindow = began.slice(index).filter((at) => at < from + 900).length;
    expect(inWindow).toBeLessThanOrEqual(50);
  }
});

test('a limit is changed at run time, by the API, and the jobs that wait hear of it', async () => {
  const watch = new Watch();
  const app = await startWith([
    on('sync', watch.run, { limits: { name: 'syncs', maxRunning: 0 } }),
  ]);
  const { id } = await app.queue.enqueue('sync', { tenant: 'x' });
  await eventually(async () => expect(await app.status(id)).toBe('waiting'));
  expect(await app.queue.limits.list()).toEqual([
    { name: 'syncs', queue: null, kinds: ['sync'], by: null, maxRunning: 0, rate: null },
  ]);
  await app.queue.limits.set({ name: 'syncs', kinds: ['sync'], maxRunning: 1 });
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  expect(await app.queue.limits.remove('syncs')).toBe(true);
  expect(await app.queue.limits.remove('syncs')).toBe(false);
});

test('what was changed by hand stays until the code says something else', async () => {
  const schema = freshSchema();
  const declared = (maxRunning: number) => [on('sync', () => {}, { limits: { maxRunning } })];
  const first = await startWith(declared(2), { schema });
  await first.sql('update pgqueue.limits set max_running = 7');
  const maxima = () => first.sql('select max_running from pgqueue.limits');
  await startWith(declared(2), { schema });
  expect(await maxima()).toEqual([{ max_running: 7 }]);
  await startWith(declared(3), { schema });
  expect(await maxima()).toEqual([{ max_running: 3 }]);
});

test.each([
  [{ maxRunning: -1 }, '`limits.maxRunning` is -1'],
  [{}, '`limits` is'],
  [{ maxRunning: 1, by: 'a..b' }, '`limits.by`'],
  [{ rate: { max: 1, per: 'soon' } }, '`limits.rate.per`'],
  [{ rate: { max: 0, per: '1s' } }, '`limits.rate.max`'],
  [{ maxRuning: 1 }, 'no `maxRuning`'],
  [{ maxRunning: 1, name: 'a/b' }, '`limits.name`'],
])(
  'the limit %j is refused at start, in a sentence that names what is wrong',
  async (limit, sentence) => {
    const starting = startWith([on('sync', () => {}, { limits: limit as never })], {
      connectionString: DATABASE_URL,
    });
    await expect(starting).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining(sentence),
    });
  },
);

test('two limits of one name are refused at start', async () => {
  const handlers = [
    on('a', () => {}, { limits: { name: 'same', maxRunning: 1 } }),
    on('b', () => {}, { limits: { name: 'same', maxRunning: 1 } }),
  ];
  await expect(startWith(handlers)).rejects.toMatchObject({ code: 'INVALID_OPTION' });
});

test('the example of docs/limits.md', async () => {
  const limits = [
    { maxRunning: 10 },
    { by: 'tenantId', maxRunning: 1, rate: { max: 100, per: '1m' } },
  ] as const;
  const app = await startWith([on('sync_crm', () => 'synced', { limits })]);
  const { id } = await app.queue.enqueue('sync_crm', { tenantId: '7' });
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  const names = (await app.queue.limits.list()).map(({ name }) => name);
  expect(names).toEqual(['sync_crm', 'sync_crm by tenantId']);
});
