// @ts-check
// Runs the tests and writes down what came out. Start it with `npm run bench`, which sees to the rest.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readOptions, USAGE } from './options.mjs';
import { writeReport } from './report/report.mjs';
import { killAll } from './support/actor-process.mjs';
import { describeMachine } from './support/machine.mjs';
import { runTest } from './support/runner.mjs';
import { Servers } from './support/servers.mjs';
import { loadContestants } from './systems/index.mjs';
import { TESTS } from './tests/index.mjs';

/** @typedef {import('./support/runner.mjs').TestResult} TestResult */

const options = parsed();
const { contestants, missing } = await loadContestants();
const tests = chosen('test', TESTS, (test) => test.name, options.tests).filter(
  (test) => options.tests || test.sizes[options.mode].rounds > 0,
);
const systems = chosen('system', contestants, ({ system }) => system.name, options.systems);

if (options.list) {
  console.log(`Tests:   ${TESTS.map(({ name }) => name).join(' ')}`);
  console.log(`Systems: ${contestants.map(({ system }) => system.name).join(' ')}`);
  for (const reason of missing) console.log(`Missing: ${reason}`);
  process.exit();
}

const startedAt = new Date();
const machine = describeMachine();
const servers = await Servers.start();
process.on('exit', killAll);
const interruption = new AbortController();
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => void interrupt());
}

/** @type {TestResult[]} */
const results = [];
try {
  for (const test of tests) {
    if (interruption.signal.aborted) break;
    results.push(
      await runTest(test, systems, servers, { ...options, signal: interruption.signal }),
    );
    // After each test, so that an interrupted run leaves what it has.
    await write();
  }
} finally {
  killAll();
  await servers.stop();
}
if (interruption.signal.aborted) process.exit(130);
console.log(`\n${await write()}\nWritten to ${options.out}`);
process.exit();

async function write() {
  const redis = await servers.redisVersion();
  const report = writeReport({
    mode: options.mode,
    scale: options.scale,
    startedAt,
    seconds: (Date.now() - startedAt.getTime()) / 1000,
    machine,
    postgres: { version: servers.postgres.version, settings: servers.postgres.settings },
    redis,
    systems: contestants.map(({ system }) => ({ name: system.name, ...system.describe() })),
    missing,
    results,
  });
  mkdirSync(options.out, { recursive: true });
  writeFileSync(join(options.out, 'results.md'), report.markdown);
  writeFileSync(join(options.out, 'results.json'), report.json);
  return report.markdown;
}

async function interrupt() {
  if (interruption.signal.aborted) return;
  interruption.abort();
  console.log('Interrupted: ending all processes …');
  killAll();
  await servers.stop();
  process.exit(130);
}

function parsed() {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return process.exit(2);
  }
}

/**
 * @template T
 * @param {string} what
 * @param {readonly T[]} all
 * @param {(item: T) => string} nameOf
 * @param {string[] | undefined} wanted undefined = all
 * @returns {T[]}
 */
function chosen(what, all, nameOf, wanted) {
  if (!wanted) return [...all];
  return wanted.map((name) => {
    const item = all.find((item) => nameOf(item) === name);
    if (item) return item;
    console.error(`There is no ${what} ${name}; there are ${all.map(nameOf).join(', ')}`);
    return process.exit(2);
  });
}
