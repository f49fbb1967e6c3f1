import { Injectable } from '@nestjs/common';
import {
  CancelJob,
  OnJobEvent,
  QueueService,
  SnoozeJob,
  UnrecoverableError,
  type JobEvent,
  type JobEventOf,
} from 'nestjs-pg-queue';
import { filter, map } from 'rxjs';
import { endApps, on, startApp, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

const note = on('note', () => 'noted');
const duration = expect.any(Number) as unknown;

/** Everything that the application tells from now on. */
function eventsOf(app: TestApp): JobEvent[] {
  const events: JobEvent[] = [];
  app.queue.events$.subscribe((event) => events.push(event));
  return events;
}

/** The same without `enqueued`: a worker may begin a job before the answer to its enqueue is read. */
function attemptEventsOf(app: TestApp): JobEvent[] {
  const events: JobEvent[] = [];
  app.queue.events$
    .pipe(filter(({ type }) => type !== 'enqueued'))
    .subscribe((event) => events.push(event));
  return events;
}

describe('events$', () => {
  it('tells the life of a job that succeeds', async () => {
    const app = await startWith([note]);
    const [all, attempts] = [eventsOf(app), attemptEventsOf(app)];
    const { id } = await app.queue.enqueue('note', { a: 1 });
    const about = { id, kind: 'note', queue: 'default' };
    const attempt = { ...about, attempt: 1, maxAttempts: 5 };
    await eventually(() =>
      expect(attempts).toEqual([
        { type: 'started', ...attempt },
        { type: 'completed', ...attempt, duration },
      ]),
    );
    expect(all).toHaveLength(3);
    expect(all).toContainEqual({ type: 'enqueued', ...about, committed: true });
  });

  it('tells of an end when it is stored', async () => {
    const app = await startWith([note]);
    const statuses: unknown[] = [];
    app.queue.events$
      .pipe(filter(({ type }) => type === 'completed'))
      .subscribe(({ id }) => void app.status(id).then((status) => statuses.push(status)));
    await app.queue.enqueueMany([{ kind: 'note' }, { kind: 'note' }]);
    await eventually(() => expect(statuses).toEqual(['done', 'done']));
  });

  it('tells of attempts that fail, and of the last one', async () => {
    const failing = on(
      'failing',
      (_payload, { attempt }) => {
        throw attempt === 1 ? new TypeError('not yet') : new UnrecoverableError('never');
      },
      { backoff: { type: 'fixed', delay: 15 } },
    );
    const app = await startWith([failing]);
    const events = eventsOf(app);
    const { id } = await app.queue.enqueue('failing');
    await eventually(() => expect(events.at(-1)?.type).toBe('failed'));
    const about = { id, kind: 'failing', queue: 'default', maxAttempts: 5, duration };
    expect(events.filter(({ type }) => type === 'retried' || type === 'failed')).toEqual([
      {
        ...about,
        type: 'retried',
        attempt: 1,
        error: { name: 'TypeError', message: 'not yet', stack: expect.any(String) },
        delay: 15,
      },
      {
        ...about,
        type: 'failed',
        attempt: 2,
        error: { name: 'UnrecoverableError', message: 'never', stack: expect.any(String) },
      },
    ]);
  });

  it('tells of jobs that are cancelled or put off', async () => {
    const moody = on('moody', (_payload, { id }) => {
      if (snoozed.has(id)) throw new CancelJob('not wanted any more');
      snoozed.add(id);
      throw new SnoozeJob(20);
    });
    const snoozed = new Set<string>();
    const app = await startWith([moody]);
    const events = attemptEventsOf(app);
    await app.queue.enqueue('moody');
    await eventually(() => expect(events.at(-1)?.type).toBe('cancelled'));
    expect(events).toMatchObject([
      { type: 'started', attempt: 1 },
      { type: 'released', attempt: 1, delay: 20 },
      { type: 'started', attempt: 1 },
      { type: 'cancelled', attempt: 1, reason: 'not wanted any more' },
    ]);

    const { id } = await app.queue.enqueue('moody', {}, { delay: '1h' });
    await app.queue.cancel(id);
    await app.queue.cancel(id); // finished: nothing happens
    await eventually(() =>
      expect(events.slice(4)).toMatchObject([
        { type: 'cancelled', id, kind: 'moody', attempt: 0, reason: null, duration: null },
      ]),
    );
  });

  it('tells of new jobs only, and says which are not committed', async () => {
    const app = await startWith([], { worker: false });
    const events = eventsOf(app);
    const first = await app.queue.enqueue('note', {}, { dedupe: 'one', queue: 'mail' });
    await app.queue.enqueue('note', {}, { dedupe: 'one' });
    const [second] = await app.queue.transaction((tx) =>
      app.queue.enqueueMany([{ kind: 'note' }, { kind: 'note', dedupe: 'one' }], { tx }),
    );
    await eventually(() =>
      expect(events).toEqual([
        { type: 'enqueued', id: first.id, kind: 'note', queue: 'mail', committed: true },
        { type: 'enqueued', id: second?.id, kind: 'note', queue: 'default', committed: false },
      ]),
    );
  });

  it('tells of a job that fails because its worker died', async () => {
    const app = await startWith([note], { worker: false });
    const { id } = await app.queue.enqueue('note', {}, { maxAttempts: 1 });
    await app.sql(
      `insert into pgqueue.workers (id, name, host, pid, version, queues, kinds, lease_until)
       values (gen_random_uuid(), 'gone', 'host', 1, '0', '{default}', '{note}', now() - interval '1 s')`,
    );
    await app.sql(
      'update pgqueue.jobs set locked_by = (select id from pgqueue.workers), attempts = 1, lease_no = 1',
    );
    const events = eventsOf(app);
    await app.queue.drain();
    await eventually(() =>
      expect(events).toEqual([
        {
          type: 'failed',
          id,
          kind: 'note',
          queue: 'default',
          attempt: 1,
          maxAttempts: 1,
          duration: null,
          error: { name: 'WorkerDied', message: expect.stringContaining('gone') },
        },
      ]),
    );
  });

  it('completes when the application has shut down, with the last events before', async () => {
    const begun = signal();
    const last = on('last', async () => {
      begun.fire();
      await new Promise(setImmediate);
    });
    const app = await startWith([last]);
    const heard: string[] = [];
    const { queue } = app;
    queue.events$.pipe(filter(({ type }) => type !== 'enqueued')).subscribe({
      next: ({ type }) => heard.push(type),
      complete: () => heard.push('complete'),
    });
    await queue.enqueue('last');
    await begun.happened;
    await app.close();
    expect(heard).toEqual(['started', 'completed', 'complete']);
  });

  it('does not let subscribers disturb the worker, or each other', async () => {
    const app = await startWith([note]);
    app.queue.events$.subscribe(() => {
      throw new Error('throws');
    });
    // oxlint-disable-next-line typescript/no-misused-promises -- that is what people write
    app.queue.events$.subscribe(async () => {
      await Promise.resolve();
      throw new Error('rejects');
    });
    app.queue.events$.pipe(map(failingOperator)).subscribe();
    const events = eventsOf(app);
    const jobs = await app.queue.enqueueMany([1, 2, 3].map(() => ({ kind: 'note' })));
    await eventually(() => expect(events).toHaveLength(9));
    for (const { id } of jobs) expect(await app.status(id)).toBe('done');
    for (const what of ['throws', 'rejects', 'in an operator']) {
      expect(log.text).toMatch(new RegExp(`error: A subscriber of events\\$ failed: ${what}`));
    }
  });
});

function failingOperator(): never {
  throw new Error('in an operator');
}

describe('@OnJobEvent', () => {
  it('calls methods with the events of their type and kind', async () => {
    const heard: string[] = [];
    @Injectable()
    class Watch {
      constructor(private readonly queue: QueueService) {}

      @OnJobEvent('completed', { kind: 'note' })
      noted({ id }: JobEventOf<'completed'>) {
        heard.push(`noted ${id} ${this.queue instanceof QueueService}`);
      }

      @OnJobEvent('completed')
      @OnJobEvent('failed', { kind: ['failing', 'note'] })
      ended({ type, kind }: JobEventOf<'completed' | 'failed'>) {
        heard.push(`${type} ${kind}`);
      }
    }
    const failing = on('failing', () => Promise.reject(new UnrecoverableError('no')));
    const other = on('other', () => Promise.reject(new UnrecoverableError('no')));
    const app = await startApp({ providers: [Watch, note, failing, other] });
    const { id } = await app.queue.enqueue('note');
    for (const kind of ['failing', 'other']) await app.queue.enqueue(kind);
    await eventually(async () =>
      expect(await app.queue.counts()).toMatchObject({ failed: 2, running: 0, queued: 0 }),
    );
    await eventually(() => expect(heard).toHaveLength(3));
    expect(heard.sort()).toEqual(['completed note', 'failed failing', `noted ${id} true`]);
  });

  it('logs what a method throws or rejects with; the worker and the others go on', async () => {
    const heard: string[] = [];
    class Watch {
      @OnJobEvent('completed')
      throws() {
        throw new Error('thrown');
      }

      @OnJobEvent('completed')
      async rejects() {
        await Promise.resolve();
        throw new Error('rejected');
      }

      @OnJobEvent('completed')
      hears({ id }: JobEventOf<'completed'>) {
        heard.push(id);
      }
    }
    const app = await startApp({ providers: [Watch, note] });
    const jobs = await app.queue.enqueueMany([{ kind: 'note' }, { kind: 'note' }]);
    await eventually(() => expect(heard.sort()).toEqual(jobs.map(({ id }) => id).sort()));
    expect(log.text).toContain(`error: Watch.throws of 'completed' events failed: thrown`);
    await eventually(() =>
      expect(log.text).toContain(`error: Watch.rejects of 'completed' events failed: rejected`),
    );
  });

  it('hears the end of jobs that a shutdown waits for, while its host can still be used', async () => {
    const heard: string[] = [];
    const begun = signal();
    class Watch {
      private isDestroyed = false;

      onModuleDestroy() {
        this.isDestroyed = true;
      }

      @OnJobEvent('completed')
      ended() {
        heard.push(this.isDestroyed ? 'too late' : 'in time');
      }
    }
    const last = on('last', async () => {
      begun.fire();
      await new Promise(setImmediate);
    });
    const app = await startApp({ providers: [Watch, last] });
    await app.queue.enqueue('last');
    await begun.happened;
    await app.close();
    expect(heard).toEqual(['in time']);
  });

  it('works in processes that only enqueue', async () => {
    const heard: string[] = [];
    class Watch {
      @OnJobEvent('enqueued')
      hears({ kind, committed }: JobEventOf<'enqueued'>) {
        heard.push(`${kind} ${committed}`);
      }
    }
    const app = await startApp({ providers: [Watch] }, { worker: false });
    await app.queue.enqueue('note');
    await eventually(() => expect(heard).toEqual(['note true']));
  });
});

test('what docs/events.md shows', async () => {
  const posted: string[] = [];
  const recorded: object[] = [];
  @Injectable()
  class Pager {
    async post(text: string) {
      posted.push(text);
    }
  }
  @Injectable()
  class Alerts {
    constructor(private readonly pager: Pager) {}

    @OnJobEvent('failed', { kind: 'send_email' })
    async emailFailed({ id, error }: JobEventOf<'failed'>) {
      await this.pager.post(`Job ${id} failed: ${error.message}`);
    }
  }
  const refused = () => Promise.reject(new UnrecoverableError('no such mailbox'));
  const app = await startApp({ providers: [Pager, Alerts, note, on('send_email', refused)] });
  app.queue.events$
    .pipe(filter((event) => event.type === 'completed'))
    .subscribe(({ kind, duration }) => recorded.push({ kind, duration }));
  const { id } = await app.queue.enqueue('send_email');
  await app.queue.enqueue('note');
  await eventually(() => expect(posted).toEqual([`Job ${id} failed: no such mailbox`]));
  await eventually(() => expect(recorded).toEqual([{ kind: 'note', duration }]));
});
