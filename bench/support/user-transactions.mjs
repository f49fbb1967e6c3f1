// @ts-check
// The transactions of an application: each inserts a row of its own and does something with the queue.
import pg from 'pg';

/**
 * @param {string} url
 * @param {number} clients
 */
export async function openTransactions(url, clients) {
  const connections = Array.from({ length: clients }, () => new pg.Client(url));
  await Promise.all(connections.map((client) => client.connect()));
  await connections[0]?.query(
    'create table if not exists app_rows (id bigint generated always as identity primary key, note text)',
  );
  return {
    /**
     * @param {number} lane which client
     * @param {number} index
     * @param {(client: pg.Client) => Promise<void> | undefined} enqueue
     */
    run: async (lane, index, enqueue) => {
      const client = /** @type {pg.Client} */ (connections[lane]);
      await client.query('begin');
      await client.query('insert into app_rows (note) values ($1)', [`row ${index}`]);
      await enqueue(client);
      await client.query('commit');
    },
    close: async () => {
      await Promise.all(connections.map((client) => client.end()));
    },
  };
}
