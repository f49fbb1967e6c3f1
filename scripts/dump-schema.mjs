// @ts-check
// Writes lib/store/schema.sql from a fresh migration of the library as it was built: npm run schema:dump
import { writeFileSync } from 'node:fs';
import pg from 'pg';
import { startPostgres } from './postgres.mjs';
import { dumpSchema } from './schema-dump.mjs';

// Named by variables: what they name exists after a build only.
const [databaseFile, migratorFile, optionsFile] = [
  '../dist/store/database.js',
  '../dist/store/migrator.js',
  '../dist/contracts/resolve-options.js',
];
const { Database } = await import(databaseFile);
const { migrate } = await import(migratorFile);
const { resolveOptions } = await import(optionsFile);

// Always this version, in a database that holds nothing else.
const postgres = await startPostgres({ major: 18 });
const database = new Database(resolveOptions({ connectionString: postgres.url }));
const client = new pg.Client(postgres.url);
try {
  await migrate(database);
  await client.connect();
  writeFileSync(
    new URL('../lib/store/schema.sql', import.meta.url),
    await dumpSchema(client, 'pgqueue'),
  );
} finally {
  await client.end();
  await database.close();
  await postgres.stop();
}
