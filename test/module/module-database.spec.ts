import { PgQueueError } from 'nestjs-pg-queue';
import pg from 'pg';
import { MIGRATIONS } from '../../lib/store/migrations/index.js';
import {
  compileApp,
  DATABASE_URL,
  endApps,
  freshSchema,
  on,
  pool,
  startWith,
} from '../support/app.js';
import { eventually } from '../support/eventually.js';

const note = (ran: string[]) => on('note', (_payload, job) => ran.push(job.id));

afterEach(endApps);

/** The parts of the URL, so that a pool hides the password from its options. */
function poolConfig(): pg.PoolConfig {
  const { hostname, port, username, password, pathname } = new URL(DATABASE_URL);
  return {
    host: hostname,
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
  };
}

describe('an existing pool', () => {
  it('serves the enqueues, is never closed, and is not what the worker works with', async () => {
    const own = new pg.Pool({ ...poolConfig(), max: 1, application_name: 'the application' });
    try {
      expect(Object.keys(own.options)).not.toContain('password');
      const ran: string[] = [];
      const app = await startWith([note(ran)], { connectionString: undefined, pool: own });
      const { id } = await app.queue.enqueue('note', {});
      await eventually(() => expect(ran).toEqual([id]));

      // All of it is taken, and the worker works on.
      const client = await own.connect();
      const [row] = await app.sql(
        `insert into pgqueue.jobs (kind) values ('note') returning id::text`,
      );
      await eventually(() => expect(ran).toEqual([id, row.id]));
      await eventually(async () => expect(await app.status(row.id as string)).toBe('done'));
      client.release();

      await app.close();
      expect((await own.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      expect(own.totalCount).toBe(1);
    } finally {
      await own.end();
    }
  });

  it('may be made from a connection string', async () => {
    const own = new pg.Pool({ connectionString: DATABASE_URL, max: 2 });
    try {
      const ran: string[] = [];
      const app = await startWith([note(ran)], { connectionString: undefined, pool: own });
      const { id } = await app.queue.enqueue('note', {});
      await eventually(() => expect(ran).toEqual([id]));
      await app.close();
    } finally {
      await own.end();
    }
  });

  it('may stand beside a connection string for the worker', async () => {
    const own = new pg.Pool({
      connectionString: DATABASE_URL,
      application_name: 'the application',
    });
    const bare = { connect: () => own.connect() };
    try {
      const ran: string[] = [];
      const app = await startWith([note(ran)], { pool: bare });
      const { id } = await app.queue.enqueue('note', {});
      await eventually(() => expect(ran).toEqual([id]));
      expect(own.totalCount).toBe(1);
      await app.close();
    } finally {
      await own.end();
    }
  });
});

describe('schema', () => {
  it.each([
    ['quotes and spaces', 'My "odd" schema'],
    ['text of SQL', `x'; drop schema public cascade; --`],
    ['a backslash and a dollar', String.raw`a\b$fn$ $1`],
    ['another script', 'Очередь задач 🎉'],
    ['a keyword', 'select'],
    ['its own default inside', `'pgqueue.jobs' pgqueue.jobs`],
  ])('may be any identifier: %s', async (_what, name) => {
    const schema = `${name} ${process.pid}`;
    const ran: string[] = [];
    const app = await startWith([note(ran)], { schema, worker: { pollInterval: '1h' } });
    try {
      const { id } = await app.queue.enqueue('note', {}, { dedupe: 'a' });
      await eventually(async () =>
        expect(await app.queue.get(id)).toMatchObject({ status: 'done' }),
      );
      const { id: later } = await app.queue.enqueue('note', {}, { delay: '1h' });
      expect(await app.queue.cancel(later)).toBe('cancelled');
      expect(ran).toEqual([id]);
      await app.close();
      const { rows } = await pool.query(`select id from ${pg.escapeIdentifier(schema)}.workers`);
      expect(rows).toEqual([]);
    } finally {
      await app.close();
      await pool.query(`drop schema ${pg.escapeIdentifier(schema)} cascade`);
    }
  });
});

describe('migrate', () => {
  it("'check' fails the start where there is no schema, and makes none", async () => {
    const schema = freshSchema();
    const app = await compileApp({ providers: [] }, { schema, migrate: 'check' });
    const outcome = app.module.init();
    await expect(outcome).rejects.toBeInstanceOf(PgQueueError);
    await expect(outcome).rejects.toMatchObject({
      code: 'SCHEMA_OUT_OF_DATE',
      message: expect.stringMatching(new RegExp(`"${schema}" has no job queue.*migrate: 'auto'`)),
    });
    const { rows } = await pool.query('select to_regnamespace($1) as schema', [schema]);
    expect(rows).toEqual([{ schema: null }]);
  });

  it("'check' fails the start where the schema is older, and takes one that is up to date", async () => {
    const first = await startWith([], { worker: false });
    const same = { schema: first.schema, migrate: 'check' } as const;
    const ran: string[] = [];
    const app = await startWith([note(ran)], same);
    const { id } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([id]));
    await first.sql(
      'delete from pgqueue.migrations where version = (select max(version) from pgqueue.migrations)',
    );
    const older = await compileApp({ providers: [] }, same);
    await expect(older.module.init()).rejects.toThrow(
      /is at version \d+, but .* needs version \d+/,
    );
  });

  it('takes a schema of a newer release', async () => {
    const first = await startWith([], { worker: false });
    await first.sql(
      `insert into pgqueue.migrations (version, name) values (9999, 'from the future')`,
    );
    for (const migrate of ['auto', 'check'] as const) {
      const app = await startWith([], { schema: first.schema, migrate, worker: false });
      expect((await app.queue.enqueue('kind', {})).outcome).toBe('inserted');
    }
  });

  it('false looks at nothing: the start needs no database', async () => {
    const schema = freshSchema();
    const app = await startWith([], { schema, migrate: false, worker: false });
    await expect(app.queue.enqueue('kind', {})).rejects.toMatchObject({ code: '3F000' });
    const { rows } = await pool.query('select to_regnamespace($1) as schema', [schema]);
    expect(rows).toEqual([{ schema: null }]);
  });

  it('false works with a schema that somebody has made', async () => {
    const first = await startWith([], { worker: false });
    const ran: string[] = [];
    const app = await startWith([note(ran)], { schema: first.schema, migrate: false });
    const { id } = await app.queue.enqueue('note', {});
    await eventually(() => expect(ran).toEqual([id]));
  });

  it("'auto' of ten applications at once is applied once", async () => {
    const schema = freshSchema();
    const apps = await Promise.all(
      Array.from({ length: 10 }, () => startWith([], { schema, worker: false })),
    );
    const rows = await apps[0]!.sql('select version from pgqueue.migrations order by version');
    expect(rows).toEqual(MIGRATIONS.map(({ version }) => ({ version })));
  });
});
