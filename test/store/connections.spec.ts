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
