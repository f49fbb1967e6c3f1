import { PgQueueError, type QueueTransaction } from 'nestjs-pg-queue';
import { DATABASE_URL, endApps, freshSchema, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { signal } from '../support/signal.js';

let app: TestApp;
let ran: string[] = [];

beforeAll(async () => {
  const welcome = on('welcome', (_payload, job) => ran.push(job.id));
  // Only a notification can wake this worker.
  app = await startWith([welcome], { worker: { pollInterval: '1h' } });
  await app.sql('create table pgqueue.users (email text primary key)');
});
beforeEach(() => {
  ran = [];
});
afterAll(endApps);

const insertUser = (email: string): [string, string[]] => [
  `insert into "${app.schema}".users (email) values ($1) returning email`,
  [email],
];

async function users(): Promise<string[]> {
  return (await app.sql('select email from pgqueue.users')).map(({ email }) => email as string);
}

describe('R3: enqueue inside the caller’s transaction', () => {
  it('commits the user and the welcome e-mail together', async () => {
    const { id, email } = await app.queue.transaction(async (tx) => {
      const { rows, rowCount } = await tx.query<{ email: string }>(
        ...insertUser('ada@example.org'),
      );
      expect(rowCount).toBe(1);
      const { id } = await app.queue.enqueue('welcome', { to: rows[0]?.email }, { tx });
      expect(await app.queue.get(id)).toBeUndefined();
      return { id, email: rows[0]?.email };
    });
    expect(email).toBe('ada@example.org');
    expect(await users()).toContain('ada@example.org');
    await eventually(() => expect(ran).toEqual([id]));
  });

  it('leaves neither when the work throws, and throws on what it threw', async () => {
    const reason = new Error('no');
    let id = '';
    const outcome = app.queue.transaction(async (tx) => {
      await tx.query(...insertUser('bob@example.org'));
      ({ id } = await app.queue.enqueue('welcome', {}, { tx }));
      throw reason;
    });
    await expect(outcome).rejects.toBe(reason);
    expect(await users()).not.toContain('bob@example.org');
    expect(await app.queue.get(id)).toBeUndefined();
  });

  it('leaves neither when a unique key stops the sign-up', async () => {
    await app.queue.transaction((tx) => tx.query(...insertUser('eve@example.org')));
    const again = app.queue.transaction(async (tx) => {
      await app.queue.enqueue('welcome', {}, { tx });
      await tx.query(...insertUser('eve@example.org'));
    });
    await expect(again).rejects.toMatchObject({ code: '23505' });
    expect((await app.queue.counts()).queued).toBe(0);
  });

  it('enqueueMany joins the transaction as well', async () => {
    const rollback = app.queue.transaction(async (tx) => {
      await app.queue.enqueueMany([{ kind: 'welcome' }, { kind: 'welcome' }], { tx });
      throw new Error('rolled back');
    });
    await expect(rollback).rejects.toThrow('rolled back');
    const results = await app.queue.transaction((tx) =>
      app.queue.enqueueMany([{ kind: 'welcome' }, { kind: 'welcome' }], { tx }),
    );
    await eventually(() => expect(ran.toSorted()).toEqual(results.map(({ id }) => id).toSorted()));
  });
});

describe('B60: a transaction that rolls back, commits late, or has failed', () => {
  it('after a rollback there is no job', async () => {
    let id = '';
    const outcome = app.queue.transaction(async (tx) => {
      ({ id } = await app.queue.enqueue('welcome', {}, { tx }));
      throw new Error('rolled back');
    });
    await expect(outcome).rejects.toThrow('rolled back');
    const [row] = await app.sql('select count(*)::int as n from pgqueue.all_jobs where id = $1', [
      id,
    ]);
    expect(row.n).toBe(0);
  });

  it('a job is never run before the commit, and starts within a second after it', async () => {
    const enqueued = signal<string>();
    const mayCommit = signal();
    const transaction = app.queue.transaction(async (tx) => {
      enqueued.fire((await app.queue.enqueue('welcome', {}, { tx })).id);
      await mayCommit.happened;
    });
    const late = await enqueued.happened;
    // Jobs that come later overtake it, so the worker has looked meanwhile.
    const { id: overtaker } = await app.queue.enqueue('welcome', {});
    await eventually(() => expect(ran).toEqual([overtaker]));
    mayCommit.fire();
    await transaction;
    const committed = performance.now();
    await eventually(() => expect(ran).toEqual([overtaker, late]));
    expect(performance.now() - committed).toBeLessThan(1_000);
  });

  it('in an aborted transaction 25P02 surfaces, on the one connection there is', async () => {
    const oneConnection = await startWith([], { maxConnections: 1, worker: false });
    const seen: unknown[] = [];
    const outcome = oneConnection.queue.transaction(async (tx) => {
      await tx.query('select 1 / 0').catch((error: unknown) => seen.push(error));
      // A second connection would have to come from the same pool, which has none left.
      await oneConnection.queue.enqueue('welcome', {}, { tx });
    });
    await expect(outcome).rejects.toMatchObject({ code: '25P02' });
    expect(seen).toMatchObject([{ code: '22012' }]);
    const [row] = await oneConnection.sql('select count(*)::int as n from pgqueue.all_jobs');
    expect(row.n).toBe(0);
  });

  it('no second connection is opened for an enqueue with tx', async () => {
    const role = `role_${freshSchema()}`;
    const url = new URL(DATABASE_URL);
    await app.sql(`create role ${role} login superuser password 'secret'`);
    [url.username, url.password] = [role, 'secret'];
    const enqueuer = await startWith([], { connectionString: url.href, worker: false });
    try {
      const connections = async () =>
        (await app.sql('select pid from pg_stat_activity where usename = $1', [role])).length;
      await enqueuer.queue.counts();
      const before = await connections();
      await enqueuer.queue.transaction(async (tx) => {
        for (const n of [1, 2, 3]) await enqueuer.queue.enqueue('welcome', { n }, { tx });
        expect(await connections()).toBe(before);
      });
    } finally {
      await enqueuer.close();
      await app.sql(`drop owned by ${role} cascade`);
      await app.sql(`drop role ${role}`);
    }
  });

  it('a failed statement that the work hides is told by TRANSACTION_ABORTED', async () => {
    const { id } = await app.queue.enqueue('welcome', {});
    await eventually(() => expect(ran).toEqual([id]));
    const outcome = app.queue.transaction(async (tx) => {
      await app.queue.enqueue('welcome', {}, { tx });
      await tx.query('select 1 / 0').catch(() => {});
      return 'all is well';
    });
    await expect(outcome).rejects.toBeInstanceOf(PgQueueError);
    await expect(outcome).rejects.toMatchObject({ code: 'TRANSACTION_ABORTED' });
    expect((await app.queue.counts()).queued).toBe(0);
  });

  it('a savepoint lets the transaction go on', async () => {
    const { id } = await app.queue.transaction(async (tx) => {
      await tx.query('savepoint before');
      await tx.query('select 1 / 0').catch(() => {});
      await tx.query('rollback to savepoint before');
      return app.queue.enqueue('welcome', {}, { tx });
    });
    await eventually(() => expect(ran).toEqual([id]));
  });
});

describe('transactions inside each other', () => {
  it('are separate: the inner one is committed although the outer one is rolled back', async () => {
    let inner = '';
    let outer = '';
    const outcome = app.queue.transaction(async (tx) => {
      ({ id: outer } = await app.queue.enqueue('welcome', {}, { tx }));
      await app.queue.transaction(async (innerTx) => {
        ({ id: inner } = await app.queue.enqueue('welcome', {}, { tx: innerTx }));
      });
      throw new Error('the outer one is rolled back');
    });
    await expect(outcome).rejects.toThrow('the outer one');
    await eventually(() => expect(ran).toEqual([inner]));
    expect(await app.queue.get(outer)).toBeUndefined();
  });

  it('hand on tx to be one', async () => {
    const signUp = async (tx: { query(text: string, values?: unknown[]): Promise<unknown> }) => {
      await tx.query(...insertUser('zoe@example.org'));
      return app.queue.enqueue('welcome', {}, { tx });
    };
    const outcome = app.queue.transaction(async (tx) => {
      await signUp(tx);
      throw new Error('rolled back');
    });
    await expect(outcome).rejects.toThrow('rolled back');
    expect(await users()).not.toContain('zoe@example.org');
    const { id } = await app.queue.transaction(signUp);
    expect(await users()).toContain('zoe@example.org');
    await eventually(() => expect(ran).toEqual([id]));
  });
});

it('a tx that is used after its transaction has ended is refused, whoever has its connection by then', async () => {
  let kept: QueueTransaction | undefined;
  await app.queue.transaction(async (tx) => {
    kept = tx;
  });
  const late = app.queue.enqueue('welcome', {}, { tx: kept });
  await expect(late).rejects.toMatchObject({ code: 'TRANSACTION_ENDED' });
});
