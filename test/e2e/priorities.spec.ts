import { endApps, on, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

// Smaller runs first.
describe('B34: one order everywhere', () => {
  it('a rescued job of an urgent priority is in the next claim, however full the claims are', async () => {
    const ran: unknown[] = [];
    const first = signal();
    const gate = signal();
    const work = on('work', async (payload) => {
      ran.push(payload);
      first.fire();
      await gate.happened;
    });
    const worker = { concurrency: 2, lease: '1s', heartbeat: '100ms' } as const;
    const web = await startWith([], { worker: false });
    const { id } = await web.queue.enqueue('work', 'rescued', { priority: 0 });
    await web.sql(
      `insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until)
       values (gen_random_uuid(), 'gone', 'host', 1, '0', '{default}', '{work}', 'infinity')`,
    );
    await web.sql(
      'update pgqueue.jobs set attempts = 1, lease_no = 1, locked_by = (select id from pgqueue.workers)',
    );
    await web.queue.enqueueMany(
      Array.from({ length: 50 }, () => ({ kind: 'work', payload: 'feed', priority: 10 })),
    );
    await startWith([work], { schema: web.schema, worker });
    await first.happened;
    await eventually(() => expect(ran).toEqual(['feed', 'feed']));
    await web.sql(`update pgqueue.workers set lease_until = now() where name = 'gone'`);
    await eventually(async () => expect(await web.status(id)).toBe('queued'));
    gate.fire();
    await eventually(() => expect(ran).toHaveLength(51));
    expect(ran.indexOf('rescued')).toBeLessThan(4);
  });

  it('a job that fails again and again does not starve those behind it', async () => {
    const ran: unknown[] = [];
    const work = on(
      'work',
      (payload, job) => {
        ran.push(payload);
        if (payload === 'failing' && job.attempt < 4) throw new Error('again');
      },
      { backoff: { type: 'fixed', delay: 1 } },
    );
    const web = await startWith([], { worker: false });
    await web.queue.enqueueMany(
      ['failing', 'b', 'c', 'd'].map((payload) => ({ kind: 'work', payload, priority: 0 })),
    );
    await startWith([work], { schema: web.schema, worker: { concurrency: 1 } });
    // A retried job comes behind older due work of its priority.
    await eventually(() => expect(ran).toHaveLength(7));
    expect(ran).toEqual(['failing', 'b', 'c', 'd', 'failing', 'failing', 'failing']);
  });

  it('a job retried by hand or put back by its worker keeps its priority', async () => {
    const ran: unknown[] = [];
    const gate = signal();
    const work = on('work', async (payload) => {
      ran.push(payload);
      if (payload === 'first') await gate.happened;
    });
    const app = await startWith([work], { worker: { concurrency: 1 } });
    await app.queue.enqueue('work', 'first');
    await eventually(() => expect(ran).toEqual(['first']));
    const [{ id }] = await app.sql(
      `insert into pgqueue.failed_jobs (id, queue, kind, payload, priority, run_at, attempts,
              max_attempts, lease_no, created_at, failed_at)
       values (nextval('pgqueue.jobs_id_seq'), 'default', 'work', '"by hand"', -3, now(), 5, 5, 5, now(), now())
       returning id::text`,
    );
    await app.queue.enqueueMany([
      { kind: 'work', payload: 'later', priority: 5 },
      { kind: 'work', payload: 'ordinary' },
    ]);
    await app.queue.retry(id as string);
    gate.fire();
    await eventually(() => expect(ran).toEqual(['first', 'by hand', 'ordinary', 'later']));
  });
});
