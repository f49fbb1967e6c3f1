import { Pool } from 'pg';
import { Connections } from '../../lib/store/connections.js';
import { statement } from '../../lib/store/statement.js';
import { serverUrl } from '../support/store.js';

const one = statement<void, string | null>({
  text: 'select 1 as one',
  values: () => [],
  row: (row) => row.one ?? null,
});

test('B24: a connection that breaks in the moment in which the pool hands it out ends no process', async () => {
  const pool = new Pool({ connectionString: serverUrl(), max: 1 });
  const connections = new Connections(pool, true, (sql) => sql);
  // After the pool has taken its listener away, and before whoever waits for the client hears of it.
  pool.once('acquire', (client) => {
    queueMicrotask(() => client.emit('error', new Error('57P01, say')));
  });
  expect(await connections.run(one, undefined)).toEqual(['1']);
  await connections.close(1_000);
});

test("the application's pool keeps no listener of ours", async () => {
  const pool = new Pool({ connectionString: serverUrl(), max: 1 });
  const connections = new Connections(pool, false, (sql) => sql);
  await connections.run(one, undefined);
  await connections.close(1_000);
  expect(pool.listenerCount('acquire')).toBe(0);
  await expect(connections.run(one, undefined)).rejects.toMatchObject({ code: 'CLOSED' });
  await pool.end();
});

describe('a statement that is sent all the time', () => {
  const hot = statement<number, string | null>({
    text: 'select $1::int + 1 as sum',
    isHot: true,
    values: (n) => [n],
    row: (row) => row.sum ?? null,
  });
  const PREPARED = `select name, statement from pg_prepared_statements where name like 'pgqueue%'`;

  let pool: Pool;
  let connections: Connections;
  beforeEach(() => {
    pool = new Pool({ connectionString: serverUrl(), max: 1 });
    connections = new Connections(pool, true, (sql) => sql);
  });
  afterEach(() => connections.close(1_000));

  it('is prepared once in each session, and others are not', async () => {
    await connections.run(hot, 1);
    await connections.run(one, undefined);
    expect(await connections.run(hot, 2)).toEqual(['3']);
    const { rows } = await pool.query<{ name: string; statement: string }>(PREPARED);
    expect(rows).toEqual([{ name: expect.any(String), statement: hot.text }]);
  });

  it('runs where a pooler gives the next one to another session of the server', async () => {
    await connections.run(hot, 1);
    await pool.query('deallocate all');
    expect(await connections.run(hot, 2)).toEqual(['3']);
    expect((await pool.query(PREPARED)).rows).toEqual([]);
  });

  it('runs where another process has prepared it in the same session of a pooler', async () => {
    await connections.run(hot, 1);
    const { rows } = await pool.query<{ name: string }>(PREPARED);
    const client = await pool.connect();
    client.release(true); // the next one of this process takes over a session with that statement
    await pool.query(`prepare ${rows[0]?.name} as select 1`);
    expect(await connections.run(hot, 2)).toEqual(['3']);
    expect(await connections.run(hot, 3)).toEqual(['4']);
  });

  it('runs in a transaction of its own all the same', async () => {
    await pool.query(`set default_transaction_isolation = 'serializable'`);
    await connections.run(hot, 1);
    await pool.query('deallocate all');
    expect(await connections.run(hot, 2)).toEqual(['3']);
  });
});
