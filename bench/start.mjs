// @ts-check
// `npm run bench`: what has to be there before the benchmark can run, then the benchmark itself, on the Node
// of bench/package.json.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, rmSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findNode } from './support/node-24.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const bench = fileURLToPath(new URL('.', import.meta.url));
const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';

if (!isInstalled()) {
  console.log('Installing the packages of bench/ …');
  execFileSync(npm, ['ci', '--prefix', bench, '--loglevel=error'], { cwd: root, stdio: 'inherit' });
}
console.log('Building the library …');
// Beside dist, which a build in another terminal may change while the benchmark runs.
rmSync(`${bench}build`, { recursive: true, force: true });
const tsc = [`${root}node_modules/typescript/bin/tsc`, '-p', `${root}tsconfig.build.json`];
execFileSync(process.execPath, [...tsc, '--outDir', `${bench}build`], {
  cwd: root,
  stdio: 'inherit',
});

const { path, remark } = await findNode();
if (remark) console.log(remark);
const run = spawn(path, [`${bench}run.mjs`, ...process.argv.slice(2)], { stdio: 'inherit' });
// The benchmark ends its children by itself; whoever started it waits for that.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => run.kill(signal));
}
run.on('exit', (code) => process.exit(code ?? 1));

/** Whether node_modules is what the lock file says; npm writes a lock of its own at each install. */
function isInstalled() {
  const installed = `${bench}node_modules/.package-lock.json`;
  if (!existsSync(installed)) return false;
  return statSync(installed).mtimeMs >= statSync(`${bench}package-lock.json`).mtimeMs;
}
