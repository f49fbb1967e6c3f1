import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { Database } from '../../lib/store/database.js';
import { MIGRATIONS } from '../../lib/store/migrations/index.js';
import { checkSchema, migrate } from '../../lib/store/migrator.js';
import { forSchema } from '../../lib/store/sql.js';
import { freshName, openStore, serverUrl, type TestStore } from '../support/store.js';

let t: TestStore;

beforeAll(async () => {
  t = await openStore({ days: false });
});
afterAll(() => t.close());

const open = (schema: string): Database =>
  new Database(resolveOptions({ connectionString: serverUrl(), schema }));

const applied = (): Promise<{ version: number }[]> =>
  t.observer.rows('select version from pgqueue.migrations order by version');

describe('B36: ten processes that migrate at once', () => {
  async function migrateTenfold(schema: string): Promise<void> {
    const processes = Array.from({ length: 10 }, () => open(schema));
    try {
      await Promise.all(processes.map(migrate));
      await Promise.all(processes.map(checkSchema));
    } finally {
      await Promise.all(processes.map((database) => database.close()));
    }
  }

  test('all succeed on an empty database, and each migration is applied once', async () => {
    await t.observer.query(`drop schema "${t.schema}" cascade`);
    await migrateTenfold(t.schema);
    expect(await applied()).toEqual(MIGRATIONS.map(({ version }) => ({ version })));
  });

  test('all succeed on a schema that is one version behind', async () => {
    await t.observer.query(`drop schema "${t.schema}" cascade`);
    await t.observer.query(`create schema "${t.schema}"`);
    await t.observer.query(
      'create table pgqueue.migrations (version int primary key, name text not null, applied_at timestamptz not null default now())',
    );
    for (const { version, name, sql } of MIGRATIONS.slice(0, -1)) {
      await t.observer.client.query(forSchema(sql, t.schema));
      await t.observer.query('insert into pgqueue.migrations (version, name) values ($1, $2)', [
        version,
        name,
      ]);
    }
    const behind = open(t.schema);
    await expect(checkSchema(behind)).rejects.toMatchObject({
      code: 'SCHEMA_OUT_OF_DATE',
      message: expect.stringContaining(`is at version ${MIGRATIONS.length - 1}`),
    });
    await behind.close();
    await migrateTenfold(t.schema);
    expect(await applied()).toEqual(MIGRATIONS.map(({ version }) => ({ version })));
  });
});

test('a migration that fails leaves nothing behind', async () => {
  const schema = freshName();
  const database = open(schema);
  // A table in its way: the first migration fails in the middle.
  await t.observer.query(`create schema "${schema}"`);
  await t.observer.query(`create table "${schema}".done_jobs ()`);
  await expect(migrate(database)).rejects.toMatchObject({ code: '42P07' });
  const tables = await t.observer.rows(`select tablename from pg_tables where schemaname = $1`, [
    schema,
  ]);
  expect(tables).toEqual([{ tablename: 'done_jobs' }]);
  await t.observer.query(`drop schema "${schema}" cascade`);
  await database.close();
});

test('a schema that was never made is reported as such', async () => {
  const database = open(freshName());
  await expect(checkSchema(database)).rejects.toMatchObject({
    code: 'SCHEMA_OUT_OF_DATE',
    message: expect.stringContaining('has no job queue'),
  });
  await database.close();
});
