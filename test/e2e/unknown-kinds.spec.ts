import { endApps, on, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';

afterEach(endApps);

describe('B37: kinds that a process has no handler for, as in a rolling deploy', () => {
  it('are left untouched and counted, and run when a process comes that handles them', async () => {
    const ran: string[] = [];
    const a = on('a', () => ran.push('a'));
    const b = on('b', () => ran.push('b'));
    const old = await startWith([a], { worker: { pollInterval: 100 } });
    await old.queue.enqueueMany(Array.from({ length: 100 }, () => ({ kind: 'b' })));
    const { id } = await old.queue.enqueue('a', {});
    await eventually(async () => expect(await old.status(id)).toBe('done'));
    expect(ran).toEqual(['a']);
    const [untouched] = await old.sql(
      `select count(*)::int as n, max(attempts) as attempts, max(lease_no) as claims from pgqueue.jobs where kind = 'b'`,
    );
    expect(untouched).toEqual({ n: 100, attempts: 0, claims: 0 });
    // Housekeeping sets them aside; its tick is brought forward.
    await eventually(async () => {
      await old.sql(`update pgqueue.maintenance set next_at = now() where task = 'handlers'`);
      await old.sql('select pgqueue.sort_by_handler_v1(1000)');
      expect(await old.queue.counts()).toMatchObject({ waiting: 100, withoutHandler: 100 });
    });
    await startWith([a, b], { schema: old.schema });
    await eventually(() => expect(ran.filter((kind) => kind === 'b')).toHaveLength(100));
    expect(await old.queue.counts()).toMatchObject({ queued: 0, waiting: 0, withoutHandler: 0 });
  });

  it('do not stand in the way of others: a long head of them slows no claim', async () => {
    const web = await startWith([], { worker: false });
    await web.sql(
      `insert into pgqueue.jobs (kind, run_at) select 'b', now() - interval '1 h' from generate_series(1, 20000)`,
    );
    const ran: string[] = [];
    const app = await startWith([on('a', (_payload, job) => ran.push(job.id))], {
      schema: web.schema,
    });
    const began = performance.now();
    for (let n = 1; n <= 10; n++) {
      await app.queue.enqueue('a', {});
      await eventually(() => expect(ran).toHaveLength(n), { interval: 1 });
    }
    expect(performance.now() - began).toBeLessThan(15_000);
  });
});
