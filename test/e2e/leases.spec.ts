import type { JobContext } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

function reaches(app: TestApp, id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

describe('R5 and R6: leases', () => {
  it('the job of a worker whose lease ended is run again, and says so', async () => {
    const attempts: number[] = [];
    const note = on('note', (_payload, job) => attempts.push(job.attempt));
    const web = await startWith([], { worker: false });
    const { id } = await web.queue.enqueue('note', {});
    await web.sql(
      `insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until)
       values (gen_random_uuid(), 'gone', 'host', 1, '0', '{default}', '{note}', now() + interval '500 ms')`,
    );
    await web.sql(
      'update pgqueue.jobs set attempts = 1, lease_no = 1, locked_by = (select id from pgqueue.workers)',
    );
    // Alive when this one starts: it is found dead later, at a heartbeat.
    await startWith([note], { schema: web.schema, worker: { lease: '1s', heartbeat: '100ms' } });
    await reaches(web, id, 'done');
    expect(attempts).toEqual([2]);
    const job = await web.queue.get(id);
    expect(job?.errors).toMatchObject([{ name: 'WorkerDied', attempt: 1 }]);
    expect(await web.sql(`select id from pgqueue.workers where name = 'gone'`)).toEqual([]);
  });

  it('a job longer than the lease keeps it by heartbeat, and is not run twice', async () => {
    let runs = 0;
    const gate = signal();
    const long = on('long', () => {
      runs += 1;
      return gate.happened;
    });
    const worker = { lease: '600ms', heartbeat: '100ms' } as const;
    const app = await startWith([long], { worker });
    await startWith([long], { worker, schema: app.schema });
    const { id } = await app.queue.enqueue('long', {});
    await reaches(app, id, 'running');
    // Three leases later, by the database's clock.
    await eventually(async () => {
      const [row] = await app.sql(
        `select bool_and(seen_at > started_at + interval '1800 ms') as long from pgqueue.workers`,
      );
      expect(row.long).toBe(true);
    });
    gate.fire();
    await reaches(app, id, 'done');
    expect(runs).toBe(1);
    expect(await app.queue.get(id)).toMatchObject({ attempts: 1, errors: [] });
  });

  it('a job taken away from its worker is settled by its new holder only', async () => {
    const gate = signal();
    const held = on('held', () => gate.happened);
    const app = await startWith([held], { worker: { pollInterval: '1h' } });
    const { id } = await app.queue.enqueue('held', {});
    await reaches(app, id, 'running');
    // As if a rescue had freed it and another worker claimed it.
    await app.sql(
      `with other as (
         insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until)
         values (gen_random_uuid(), 'other', 'host', 1, '0', '{default}', '{}', now() + interval '1 h')
         returning id)
       update pgqueue.jobs set locked_by = (select id from other), attempts = 2, lease_no = lease_no + 1`,
    );
    gate.fire();
    await eventually(() => expect(log.text).toMatch(new RegExp(`Job ${id} is not this worker's`)));
    expect(await app.queue.get(id)).toMatchObject({ status: 'running', attempts: 2, result: null });
  });

  it('a worker that was declared dead aborts its jobs, and starts again under a new id', async () => {
    const jobs: JobContext[] = [];
    const reasons: unknown[] = [];
    const held = on('held', async (_payload, job) => {
      jobs.push(job);
      if (jobs.length > 1) return;
      await new Promise((resolve) => job.signal.addEventListener('abort', resolve));
      reasons.push(job.signal.reason);
      throw new Error('stopped');
    });
    const app = await startWith([held], { worker: { lease: '1s', heartbeat: '100ms' } });
    const { id } = await app.queue.enqueue('held', {});
    await reaches(app, id, 'running');
    const [before] = await app.sql('select id from pgqueue.workers');
    // While nobody handles the kind, its jobs are set aside.
    const { id: aside } = await app.queue.enqueue('held', {}, { delay: '1h' });
    await app.sql('update pgqueue.workers set dead_at = clock_timestamp()');
    await app.sql(`update pgqueue.jobs set waits_for = 'handler', run_at = now() where id = $1`, [
      aside,
    ]);
    await reaches(app, id, 'done');
    await reaches(app, aside, 'done');
    expect(reasons).toMatchObject([{ code: 'LEASE_LOST' }]);
    expect(jobs).toHaveLength(3);
    const [after] = await app.sql('select id from pgqueue.workers where dead_at is null');
    expect(after.id).not.toBe(before.id);
  });
});
