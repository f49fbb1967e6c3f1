import { PgQueueError } from '../../lib/contracts/errors.js';
import type { JobRecord, JobStatus } from '../../lib/contracts/job.js';
import { JobWaits } from '../../lib/queue/job-waits.js';
import type { FoundJob } from '../../lib/store/statements/job-records.js';
import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';

/** A table of jobs whose answers the test may hold back. */
class Table {
  readonly looks: (readonly string[])[] = [];
  readonly jobs = new Map<string, FoundJob>();
  /** While there is one, the answer that was read before it waits for it. */
  gate: Signal | undefined;
  /** In place of the next answers. */
  readonly errors: Error[] = [];
  mostAtOnce = 0;
  private atOnce = 0;
  private listener: ((id: string) => void) | undefined;

  readonly waits = new JobWaits({
    stillPending: (ids) =>
      this.answer(() => {
        this.looks.push(ids);
        return ids.filter((id) => this.isPending(id));
      }),
    getJobs: (ids) => this.answer(() => ids.flatMap((id) => this.jobs.get(id) ?? [])),
    onEnded: (listener) => {
      this.listener = listener;
      return () => {
        this.listener = undefined;
      };
    },
  });

  set(id: string, status: JobStatus, result: unknown = null): void {
    const job = { id, kind: 'k', status, attempts: 1, lastError: 'no', result } as JobRecord;
    this.jobs.set(id, { job, hasResult: true });
  }

  hint(id: string): void {
    this.listener?.(id);
  }

  get isListening(): boolean {
    return this.listener !== undefined;
  }

  /** A call that has waited for a minute, so that its looks are 250 ms apart, and waits for one more. */
  waitLong(id: string): Promise<unknown> {
    const now = performance.now();
    return this.waits.wait(id, { since: now - 60_000, deadline: now + 60_000 }, false);
  }

  wait(id: string, timeout: number): Promise<unknown> {
    const since = performance.now();
    return this.waits.wait(id, { since, deadline: since + timeout }, false);
  }

  private isPending(id: string): boolean {
    return ['queued', 'running'].includes(this.jobs.get(id)?.job.status ?? '');
  }

  private async answer<T>(read: () => T): Promise<T> {
    this.atOnce += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.atOnce);
    const rows = read();
    await (this.gate?.happened ?? new Promise(setImmediate));
    this.atOnce -= 1;
    const error = this.errors.shift();
    if (error) throw error;
    return rows;
  }
}

let table: Table;
beforeEach(() => {
  table = new Table();
});

test('a job that ends while a look is on its way is looked at again when that has come back', async () => {
  table.set('7', 'running');
  table.gate = signal();
  const waiting = table.waitLong('7');
  await eventually(() => expect(table.looks).toHaveLength(1), { interval: 1 });
  table.set('7', 'done', 42); // after the look has read that it runs
  table.hint('7');
  const { gate } = table;
  table.gate = undefined;
  const openedAt = performance.now();
  gate.fire();
  expect(await waiting).toBe(42);
  expect(performance.now() - openedAt).toBeLessThan(200); // and not at the next poll
});

test('without a hint the next look finds it', async () => {
  table.set('7', 'running');
  const waiting = table.waitLong('7');
  await eventually(() => expect(table.looks).toHaveLength(1), { interval: 1 });
  table.set('7', 'done', 42);
  expect(await waiting).toBe(42);
});

test('a job that moves back between the two statements of a look is waited for', async () => {
  table.set('7', 'failed');
  table.gate = signal();
  const waiting = table.wait('7', 30_000);
  await eventually(() => expect(table.looks).toHaveLength(1), { interval: 1 });
  table.set('7', 'queued'); // retried by hand, after it was read as not pending
  table.gate.fire();
  table.gate = undefined;
  await eventually(() => expect(table.looks.length).toBeGreaterThan(1), { interval: 1 });
  table.set('7', 'done', 'after all');
  expect(await waiting).toBe('after all');
});

test('a look that was under way before says nothing to a wait that begins then', async () => {
  table.set('7', 'failed');
  table.gate = signal();
  const first = table.wait('7', 30_000);
  await eventually(() => expect(table.looks).toHaveLength(1), { interval: 1 });
  const second = table.wait('7', 30_000);
  table.gate.fire();
  table.gate = undefined;
  await expect(first).rejects.toMatchObject({ code: 'JOB_FAILED' });
  table.set('7', 'done', 'retried');
  expect(await second).toBe('retried');
});

test('any number of waits share their looks, one at a time, and leave nothing behind', async () => {
  const ids = Array.from({ length: 200 }, (_, n) => String(n));
  for (const id of ids) table.set(id, 'running');
  expect(table.isListening).toBe(false);
  const waiting = Promise.all([...ids, ...ids].map((id) => table.wait(id, 30_000)));
  expect(table.isListening).toBe(true);
  await eventually(() => expect(table.looks.length).toBeGreaterThan(1), { interval: 1 });
  expect(table.looks[0]).toHaveLength(200);
  for (const id of ids) table.set(id, 'done', id);
  expect(await waiting).toEqual([...ids, ...ids]);
  expect(table.mostAtOnce).toBe(1);
  expect(table.isListening).toBe(false);
  const { length } = table.looks;
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(table.looks).toHaveLength(length);
});

test('the last look goes out before the limit, so that what has ended by then is not missed', async () => {
  table.set('7', 'running');
  const now = performance.now();
  // Looks are 250 ms apart by now, and the limit comes sooner.
  const waiting = table.waits.wait('7', { since: now - 60_000, deadline: now + 120 }, false);
  await eventually(() => expect(table.looks).toHaveLength(1), { interval: 1 });
  table.set('7', 'done', 'in time');
  expect(await waiting).toBe('in time');
});

test('a database that does not answer is waited for until the limit, which says why', async () => {
  table.set('7', 'running');
  const outage = new PgQueueError('OUTCOME_UNKNOWN', 'The connection was lost');
  table.errors.push(outage);
  const short = table.wait('7', 40);
  const long = table.wait('7', 30_000);
  await expect(short).rejects.toMatchObject({ code: 'WAIT_TIMEOUT', jobId: '7', cause: outage });
  table.set('7', 'done', 'afterwards');
  expect(await long).toBe('afterwards');
});

test('what PostgreSQL answers to a look is what its waits reject with', async () => {
  table.set('7', 'running');
  const refused = Object.assign(new Error('permission denied'), {
    code: '42501',
    severity: 'ERROR',
  });
  table.errors.push(refused);
  await expect(table.wait('7', 30_000)).rejects.toBe(refused);
  table.set('7', 'done', 'granted');
  expect(await table.wait('7', 30_000)).toBe('granted');
});

test('the end of the queue ends every wait', async () => {
  for (const id of ['7', '8']) table.set(id, 'running');
  const waits = ['7', '8'].map((id) => table.waitLong(id));
  table.errors.push(new PgQueueError('CLOSED', 'The queue is closed'));
  for (const wait of waits) await expect(wait).rejects.toMatchObject({ code: 'CLOSED' });
  expect(table.isListening).toBe(false);
});
