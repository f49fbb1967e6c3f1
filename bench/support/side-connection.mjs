// @ts-check
// A connection that an adapter keeps for questions asked often, such as how many jobs are left.
import pg from 'pg';

/** @type {Map<string, Promise<pg.Client>>} */
const clients = new Map();

/**
 * @param {string} url
 * @param {string} text
 * @param {unknown[]} [values]
 */
export async function ask(url, text, values) {
  const connected = clients.get(url) ?? connect(url);
  clients.set(url, connected);
  const client = await connected;
  return client.query(text, values);
}

/**
 * @param {string} url
 * @param {string} text a query for one number
 */
export async function askNumber(url, text) {
  const { rows } = await ask(url, text);
  return Number(Object.values(rows[0])[0]);
}

/** @param {string} url */
async function connect(url) {
  const client = new pg.Client(url);
  client.on('error', () => clients.delete(url));
  await client.connect();
  return client;
}
