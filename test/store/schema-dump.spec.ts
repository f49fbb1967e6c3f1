import { readFileSync } from 'node:fs';
import { Client } from 'pg';
import { startPostgres } from '../../scripts/postgres.mjs';
import { dumpSchema } from '../../scripts/schema-dump.mjs';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';
import { Database } from '../../lib/store/database.js';
import { migrate } from '../../lib/store/migrator.js';

// A server of its own: the dump is in the words of this version, whichever one the other tests run on.
test('the checked-in schema is what the migrations make: run `npm run schema:dump`', async () => {
  const postgres = await startPostgres({ major: 18 });
  const database = new Database(resolveOptions({ connectionString: postgres.url }));
  const client = new Client(postgres.url);
  try {
    await migrate(database);
    await client.connect();
    const checkedIn = readFileSync(new URL('../../lib/store/schema.sql', import.meta.url), 'utf8');
    expect(await dumpSchema(client, 'pgqueue')).toBe(checkedIn);
  } finally {
    await client.end();
    await database.close();
    await postgres.stop();
  }
});
