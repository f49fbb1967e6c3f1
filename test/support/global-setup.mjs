// @ts-check
import { startPostgres } from '../../scripts/postgres.mjs';

/** One server for the whole run; each test file works in a schema of its own. */
export default async function setup() {
  const started = performance.now();
  const postgres = await startPostgres();
  // The workers that run the test files are forked after this, and inherit it.
  process.env.DATABASE_URL = postgres.url;
  Object.assign(globalThis, { stopPostgres: postgres.stop });
  const took = Math.round(performance.now() - started);
  console.log(`PostgreSQL (${postgres.source}) up in ${took} ms`);
}
