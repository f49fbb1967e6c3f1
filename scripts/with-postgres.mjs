// @ts-check
// Runs a command with DATABASE_URL set: node scripts/with-postgres.mjs node dist-sample/main.js
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { startPostgres } from './postgres.mjs';

const [command, ...args] = process.argv.slice(2);
if (command === undefined) {
  console.error('Usage: node scripts/with-postgres.mjs <command> [arguments…]');
  process.exit(2);
}

const postgres = await startPostgres();
const SOURCES = {
  env: 'the one of DATABASE_URL',
  docker: 'a container, gone with this command',
  embedded: 'a server of its own, gone with this command',
};
console.error(`PostgreSQL: ${SOURCES[postgres.source]}`);
const child = spawn(command, args, {
  stdio: 'inherit',
  env: { ...process.env, DATABASE_URL: postgres.url },
});

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  // A terminal sends its Ctrl-C to the command too: once is enough.
  const reachesBoth = signal === 'SIGINT' && process.stdin.isTTY;
  process.on(signal, () => void (reachesBoth || child.kill(signal)));
}

process.exitCode = await new Promise((resolve) => {
  child.once('error', (error) => {
    console.error(`${command} could not be started: ${error.message}`);
    resolve(127);
  });
  // 128 + n, as a shell says it of a command that a signal ended.
  child.once('exit', (code, signal) =>
    resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)),
  );
});
await postgres.stop();
