import { Test } from '@nestjs/testing';
import { PgQueueModule, QueueService } from 'nestjs-pg-queue';
import { DATABASE_URL, endApps, freshSchema, on, pool, sqlIn } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';

const ROLE = `role_${freshSchema()}`;
const schema = freshSchema();

beforeAll(async () => {
  await pool.query(`create role ${ROLE} login superuser password 'secret'`);
});
afterAll(async () => {
  await endApps();
  await pool.query(`drop owned by ${ROLE} cascade`);
  await pool.query(`drop role ${ROLE}`);
});

/** How many connections the role of this file has. */
async function connections(): Promise<number> {
  const { rowCount } = await pool.query('select from pg_stat_activity where usename = $1', [ROLE]);
  return rowCount ?? 0;
}

/** Timers and sockets that keep the process alive. */
function resources(): string[] {
  return process.getActiveResourcesInfo().filter((name) => /Timeout|TCPSocketWrap/.test(name));
}

it('B44: init and close fifty times leave no connection, no timer, no socket and no row', async () => {
  const url = new URL(DATABASE_URL);
  [url.username, url.password] = [ROLE, 'secret'];
  const handler = on('kind', () => 'done');
  const before = resources().length;
  for (let round = 1; round <= 50; round++) {
    const module = PgQueueModule.forRoot({ connectionString: url.href, schema });
    const app = await Test.createTestingModule({ imports: [module], providers: [handler] })
      .setLogger(log)
      .compile();
    await app.init();
    const { id } = await app.get(QueueService).enqueue('kind', { round });
    // Some are closed while they start, some while they work, some when they have worked.
    if (round % 3 === 0) {
      await eventually(async () =>
        expect((await app.get(QueueService).get(id))?.status).toBe('done'),
      );
    }
    await app.close();
  }
  await eventually(async () => expect(await connections()).toBe(0));
  expect(await sqlIn(schema, 'select id from pgqueue.workers')).toEqual([]);
  expect(await sqlIn(schema, `select id from pgqueue.jobs where locked_by is not null`)).toEqual(
    [],
  );
  await eventually(() => expect(resources().length).toBeLessThanOrEqual(before + 1));
  expect(log.lines.filter((line) => /^(error|warn)/.test(line))).toEqual([]);
}, 60_000);
