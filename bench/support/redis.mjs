// @ts-check
// A Redis for one measurement: on a free port of the loopback, with its files in a temporary directory.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** @typedef {{ url: string, version: string, pid: number, stop: () => Promise<void> }} Redis */

const HOST = '127.0.0.1';
const READY_WITHIN_MS = 10_000;

/**
 * Starts `redis-server` from the PATH.
 * @param {{ fsync: 'everysec' | 'always' }} options when the append-only file reaches the disk
 * @returns {Promise<Redis | undefined>} undefined where Redis is not installed
 */
export async function startRedis({ fsync }) {
  const version = installedVersion();
  if (version === undefined) return undefined;

  const port = await freePort();
  const directory = await mkdtemp(join(tmpdir(), 'bench-redis-'));
  const server = spawn('redis-server', settings({ port, directory, fsync }), { stdio: 'ignore' });
  const ended = once(server, 'exit');
  // A benchmark that is interrupted leaves no server behind.
  const kill = () => void server.kill('SIGKILL');
  process.once('exit', kill);
  const stop = async () => {
    process.off('exit', kill);
    server.kill('SIGTERM');
    await ended;
    await rm(directory, { recursive: true, force: true });
  };

  try {
    await Promise.race([
      listening(port),
      ended.then(([code]) => Promise.reject(new Error(`redis-server ended with code ${code}.`))),
    ]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: `redis://${HOST}:${port}`, version, pid: Number(server.pid), stop };
}

/** @param {{ port: number, directory: string, fsync: string }} options */
function settings({ port, directory, fsync }) {
  return Object.entries({
    '--port': String(port),
    '--bind': HOST,
    '--dir': directory,
    '--appendonly': 'yes',
    '--appendfsync': fsync,
    '--save': '',
    '--maxmemory-policy': 'noeviction', // BullMQ asks for it
  }).flat();
}

/** @returns {string | undefined} such as `7.0.15` */
function installedVersion() {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
  return /\bv=(\S+)/.exec(stdout ?? '')?.[1];
}

/** @returns {Promise<number>} */
async function freePort() {
  const server = createServer().listen(0, HOST);
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}

/** @param {number} port */
async function listening(port) {
  const until = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const socket = connect(port, HOST);
    try {
      await once(socket, 'connect');
      return;
    } catch (error) {
      if (performance.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    } finally {
      socket.destroy();
    }
  }
}
