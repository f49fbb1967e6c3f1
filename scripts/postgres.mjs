// @ts-check
// A PostgreSQL for the tests, the benchmarks and the sample application.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** @typedef {{ source: 'env' | 'docker' | 'embedded', url: string, stop: () => Promise<void> }} Postgres */

/**
 * @typedef {object} PostgresOptions
 * @property {14 | 18} [major] this version, embedded, whatever DATABASE_URL says. Default 18.
 * @property {string[]} [settings] more of `postgresql.conf`, such as `'log_statement=all'`; asks for a
 *   server of its own too, since a server that is already running can't be given them.
 * @property {boolean} [durable] commits reach the disk, as benchmarks need it. Default false.
 */

const KEEPER = fileURLToPath(new URL('postgres-keeper.mjs', import.meta.url));

// The tests keep two workers with several pools each.
const SETTINGS = ['max_connections=200'];
// Nothing in a test outlives the machine. Commits stay synchronous: tests kill single backends, and the
// server that recovers from that must not have forgotten any.
const CARELESS = ['fsync=off', 'full_page_writes=off'];
const CAREFUL = ['fsync=on', 'full_page_writes=on'];

/**
 * DATABASE_URL if it is set, else a container if Docker answers, else the embedded server. An embedded
 * server ends with this process, however this process ends.
 * @param {PostgresOptions} [options]
 * @returns {Promise<Postgres>}
 */
export async function startPostgres({ major, settings = [], durable = false } = {}) {
  const wanted = [...SETTINGS, ...(durable ? CAREFUL : CARELESS), ...settings];
  if (major !== undefined) return startEmbedded(major, wanted);

  const url = process.env.DATABASE_URL;
  if (url && settings.length === 0) return { source: 'env', url, stop: async () => {} };
  return (await startContainer(wanted)) ?? startEmbedded(18, wanted);
}

/**
 * @param {string[]} settings
 * @returns {Promise<Postgres | undefined>} undefined where no container engine answers
 */
async function startContainer(settings) {
  // Imported late: it is large, and its probe takes milliseconds where there is no engine.
  const { getContainerRuntimeClient } = await import('testcontainers');
  const engine = await getContainerRuntimeClient().catch(() => undefined);
  if (!engine) return undefined;

  const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
  const container = await new PostgreSqlContainer(process.env.PG_IMAGE ?? 'postgres:18-alpine')
    .withCommand(['postgres', ...settings.flatMap((setting) => ['-c', setting])])
    .start();
  return {
    source: 'docker',
    url: container.getConnectionUri(),
    stop: async () => void (await container.stop()),
  };
}

/**
 * @param {number} major
 * @param {string[]} settings
 * @returns {Promise<Postgres>}
 */
async function startEmbedded(major, settings) {
  const keeper = fork(KEEPER, [JSON.stringify({ major, settings })], {
    detached: true, // Ctrl-C in a terminal must not reach it: it has to clean up after us
    execArgv: [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const ended = once(keeper, 'exit');
  const answer = /** @type {{ url?: string, error?: string }} */ (
    await Promise.race([
      once(keeper, 'message').then(([message]) => message),
      ended.then(() => ({ error: 'The process that keeps the embedded PostgreSQL has ended.' })),
    ])
  );
  if (answer.url === undefined) throw new Error(answer.error);

  // A script that forgets stop() can still end.
  keeper.unref();
  keeper.channel?.unref();
  return {
    source: 'embedded',
    url: answer.url,
    stop: async () => {
      keeper.ref();
      if (keeper.connected) keeper.disconnect();
      await ended;
    },
  };
}
