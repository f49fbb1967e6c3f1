// @ts-check
// Packs the library as it would be published, installs it into two applications the way users do, and
// lets each run its jobs: npm run test:compat
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { startPostgres } from '../../scripts/postgres.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const NPM = process.platform === 'win32' ? 'npm.cmd' : 'npm';
const SECOND = 1_000;

/** @typedef {{ name: string, nest: number, type: 'commonjs' | 'module', loads: RegExp }} App */

/** @type {App[]} */
const APPS = [
  {
    name: 'CommonJS',
    nest: 11,
    type: 'commonjs',
    loads: /require\("nestjs-pg-queue"\)/,
  },
  {
    name: 'ECMAScript modules',
    nest: 12,
    type: 'module',
    loads: /from 'nestjs-pg-queue'/,
  },
];

const { devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
const directory = await mkdtemp(join(tmpdir(), 'pgqueue-compat-'));
const postgres = await startPostgres();
let passed = 0;
try {
  const tarball = await pack();
  for (const app of APPS) {
    const started = performance.now();
    const failure = await tryApp(app, tarball).catch(describe);
    const seconds = ((performance.now() - started) / SECOND).toFixed(1);
    console.log(`Nest ${app.nest}, ${app.name}: ${failure ?? 'passed'} (${seconds} s)`);
    if (failure === undefined) passed += 1;
  }
} catch (error) {
  console.log(describe(error));
} finally {
  await postgres.stop();
  await rm(directory, { recursive: true, force: true });
}
console.log(`compat: ${passed} passed, ${APPS.length - passed} failed`);
process.exitCode = passed === APPS.length ? 0 : 1;

/** Builds too: npm runs "prepack". */
async function pack() {
  await run(NPM, ['pack', '--silent', '--pack-destination', directory], ROOT, 120 * SECOND);
  const tarball = (await readdir(directory)).find((file) => file.endsWith('.tgz'));
  if (tarball === undefined) throw new Error('npm pack has written no tarball.');
  return join(directory, tarball);
}

/**
 * @param {App} app
 * @param {string} tarball
 */
async function tryApp({ nest, type, loads }, tarball) {
  const home = join(directory, `nest-${nest}`);
  await mkdir(home);
  await copyFile(new URL('app/main.ts', import.meta.url), join(home, 'main.ts'));
  await writeJson(join(home, 'package.json'), {
    name: 'app',
    private: true,
    type,
    dependencies: {
      '@nestjs/common': `^${nest}.0.0`,
      '@nestjs/core': `^${nest}.0.0`,
      '@types/node': devDependencies['@types/node'],
      'nestjs-pg-queue': `file:${tarball}`,
      'reflect-metadata': devDependencies['reflect-metadata'],
      rxjs: devDependencies.rxjs,
    },
  });
  await writeJson(join(home, 'tsconfig.json'), {
    // "nodenext" makes of each file what its package.json says: CommonJS or a module.
    compilerOptions: {
      target: 'ES2022',
      lib: ['ES2023'],
      module: 'nodenext',
      types: ['node'],
      strict: true,
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
      skipLibCheck: false,
    },
    files: ['main.ts'],
  });

  const install = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--prefer-offline'];
  await run(NPM, install, home, 180 * SECOND);
  await run(process.execPath, [TSC, '-p', '.'], home, 60 * SECOND);

  const core = JSON.parse(
    await readFile(join(home, 'node_modules/@nestjs/core/package.json'), 'utf8'),
  );
  if (!core.version.startsWith(`${nest}.`)) throw new Error(`npm has installed ${core.version}.`);
  const compiled = await readFile(join(home, 'main.js'), 'utf8');
  if (!loads.test(compiled)) throw new Error('The compiler has not made what this is to test.');

  const schema = `compat_nest_${nest}_${process.pid}`;
  const env = { ...process.env, DATABASE_URL: postgres.url, COMPAT_SCHEMA: schema };
  try {
    const output = await run(process.execPath, ['main.js'], home, 60 * SECOND, env);
    if (!output.trimEnd().endsWith('every handler ran, while the application was ready'))
      throw new Error(`It said:\n${output}`);
  } finally {
    await drop(schema);
  }
}

/**
 * The database may be one that lives on.
 * @param {string} schema
 */
async function drop(schema) {
  const client = new pg.Client(postgres.url);
  await client.connect();
  await client.query(`drop schema if exists ${schema} cascade`);
  await client.end();
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 * @param {number} timeout milliseconds
 * @param {NodeJS.ProcessEnv} [env]
 */
async function run(command, args, cwd, timeout, env = process.env) {
  const { stdout } = await promisify(execFile)(command, args, { cwd, timeout, env });
  return stdout;
}

/**
 * @param {unknown} error
 * @returns {string}
 */
function describe(error) {
  const { message, stdout, stderr, killed } =
    /** @type {{ message: string, stdout?: string, stderr?: string, killed?: boolean }} */ (error);
  const why = killed ? `It took too long. ${message}` : message;
  return ['failed', why, stdout, stderr].filter(Boolean).join('\n');
}

/**
 * @param {string} file
 * @param {unknown} value
 */
function writeJson(file, value) {
  return writeFile(file, JSON.stringify(value, null, 2));
}
