import { NestFactory } from '@nestjs/core';
import { QueueService } from 'nestjs-pg-queue';
import { Pool } from 'pg';
import { AppModule } from '../app.module.js';
import { Users } from '../users/users.repository.js';
import { checkAll } from './checks.js';
import { Cleanup } from './cleanup.js';
import { enqueueFourJobs, readJobs, untilSettled } from './jobs.js';
import { startOutside } from './outside.js';
import { say } from './say.js';
import { createScratchSchemas } from './scratch-schemas.js';
import { formatTable } from './table.js';
import { orAborted } from './until.js';
import { WorkerProcess } from './worker-process.js';

/** It takes about six seconds; this is for a machine that is busy with other things, or for a fault. */
const LIMIT_MS = 30_000;

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => stop.abort(new Error(`it was stopped by ${signal}`)));
}
const limit = setTimeout(
  () => stop.abort(new Error(`it was not over after ${LIMIT_MS / 1_000} s`)),
  LIMIT_MS,
);
const cleanup = new Cleanup();
try {
  process.exitCode = (await runDemo(stop.signal)) ? 0 : 1;
} catch (error) {
  say(`The demo failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  clearTimeout(limit);
  await cleanup.run();
}

async function runDemo(signal: AbortSignal): Promise<boolean> {
  const databaseUrl = process.env['DATABASE_URL'];
  if (!databaseUrl) throw new Error('DATABASE_URL is not set; `npm run demo` sets it');
  const schemas = await createScratchSchemas(databaseUrl, cleanup);
  const outside = await startOutside(cleanup);
  const env = {
    // pg sends this to the server with each connection: unqualified names mean this run's tables.
    PGOPTIONS: `-c search_path=${schemas.app}`,
    QUEUE_SCHEMA: schemas.queue,
    QUEUE_CONCURRENCY: '1',
    SMTP_URL: outside.smtp.url,
    WEBHOOK_URL: outside.webhooks.url,
    CRM_URL: outside.crm.url,
    EXPORT_DIR: outside.exportDir,
  };

  say('Starting two worker processes, and here the application with `worker: false` ...');
  const workers = ['worker 1', 'worker 2'].map((name) => new WorkerProcess(name, env));
  cleanup.add(() => Promise.all(workers.map((worker) => worker.stop())));
  Object.assign(process.env, env, { WORKER: 'off' });
  const starting = NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
  cleanup.add(() =>
    starting.then(
      (app) => app.close(),
      () => {},
    ),
  );
  const app = await orAborted(starting, signal);
  await orAborted(Promise.all(workers.map(({ ready }) => ready)), signal);

  const started = Date.now();
  const { ids, users } = await enqueueFourJobs(app.get(QueueService), app.get(Users));
  say(`Enqueued four jobs, with ${users.length} users, in one transaction: #${ids.join(', #')}`);

  const db = app.get(Pool);
  const settled = untilSettled(db, schemas.queue, ids, signal);
  await settled.catch((error: Error) => say(`Not all jobs were settled: ${error.message}`));
  say(`${((Date.now() - started) / 1_000).toFixed(1)} s later, in ${schemas.queue}.all_jobs:`);
  say();
  const jobs = await readJobs(db, schemas.queue, ids);
  formatTable(['id', 'kind', 'status', 'attempts'], jobs).forEach((line) => say(`  ${line}`));
  say();
  return checkAll({ jobs, users, outside, workers });
}
