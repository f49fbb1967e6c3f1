import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import type { Cleanup } from './cleanup.js';

export interface ScratchSchemas {
  readonly app: string;
  readonly queue: string;
}

/** Two schemas of this run's own, since DATABASE_URL may name a database that holds other things. */
export async function createScratchSchemas(
  connectionString: string,
  cleanup: Cleanup,
): Promise<ScratchSchemas> {
  const app = `pgqueue_demo_${randomBytes(4).toString('hex')}`;
  const schemas = { app, queue: `${app}_jobs` };
  cleanup.add(() =>
    run(connectionString, `drop schema if exists ${schemas.app}, ${schemas.queue} cascade`),
  );
  await run(connectionString, `create schema ${schemas.app}`);
  return schemas;
}

async function run(connectionString: string, sql: string): Promise<void> {
  const client = new Client({
    connectionString,
    connectionTimeoutMillis: 5_000,
    query_timeout: 5_000,
  });
  try {
    await client.connect();
    await client.query(sql);
  } finally {
    await client.end();
  }
}
