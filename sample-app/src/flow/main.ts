import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { QueueService } from 'nestjs-pg-queue';
import { Cleanup } from '../demo/cleanup.js';
import { say } from '../demo/say.js';
import { createScratchSchemas } from '../demo/scratch-schemas.js';
import { orAborted, poll } from '../demo/until.js';
import { WorkerProcess } from '../demo/worker-process.js';
import { mostAtOnce, mostWithin, rateOf } from './figures.js';
import { now, type Report } from './reports.js';

// Schedules, limits, rates, cancelling and results, with two worker processes; this one only enqueues.

const LIMIT_MS = 30_000;
const SYNCS = 40;
const CALLS = 41;
const RATE = 10;
/** From a claim to the first line of its handler it takes some milliseconds, now fewer and now more. */
const JITTER_MS = 30;

const cleanup = new Cleanup();
const signal = AbortSignal.timeout(LIMIT_MS);
let failures = 0;
try {
  await runFlow();
  process.exitCode = failures === 0 ? 0 : 1;
} catch (error) {
  say(`The demo failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await cleanup.run();
}

async function runFlow(): Promise<void> {
  const databaseUrl = process.env['DATABASE_URL'];
  if (!databaseUrl) throw new Error('DATABASE_URL is not set; `npm run demo:flow` sets it');
  const schemas = await createScratchSchemas(databaseUrl, cleanup);
  const env = { QUEUE_SCHEMA: schemas.queue };
  Object.assign(process.env, env, { WORKER: 'off' });

  say('Starting two worker processes, and here the application with `worker: false` ...');
  // The module reads the environment when it is imported.
  const { FlowModule } = await import('./flow.module.js');
  const app = await orAborted(
    NestFactory.createApplicationContext(FlowModule, { logger: ['error', 'warn'] }),
    signal,
  );
  cleanup.add(() => app.close());
  const program = fileURLToPath(new URL('./worker.js', import.meta.url));
  const workers = ['worker 1', 'worker 2'].map(
    (name) => new WorkerProcess(name, { ...env, WORKER: 'on' }, program),
  );
  cleanup.add(() => Promise.all(workers.map((worker) => worker.stop())));
  await orAborted(Promise.all(workers.map(({ ready }) => ready)), signal);

  const queue = app.get(QueueService);
  const told = (kind: string) =>
    workers.flatMap(({ messages }) => messages as Report[]).filter((said) => said.kind === kind);
  const until = (kind: string, count: number) =>
    poll(async () => (told(kind).length >= count ? true : undefined), signal);
  say();

  await queue.enqueueMany(
    Array.from({ length: SYNCS }, (_, n) => ({
      kind: 'sync-tenant',
      payload: { tenant: `tenant ${n % 4}` },
    })),
  );
  await until('sync-tenant', 2 * SYNCS);
  const syncs = told('sync-tenant');
  const tenants = [...new Set(syncs.map(({ tenant }) => tenant))];
  const most = mostAtOnce(syncs);
  const mostOfOne = Math.max(
    ...tenants.map((name) => mostAtOnce(syncs.filter(({ tenant }) => tenant === name))),
  );
  check(`${SYNCS} jobs of four tenants: at most ${most} ran at once (limit 3)`, most === 3);
  check(`and at most ${mostOfOne} of one tenant (limit 1)`, mostOfOne === 1);

  await queue.enqueueMany(Array.from({ length: CALLS }, () => ({ kind: 'call-api', payload: {} })));
  await until('call-api', CALLS);
  const calls = told('call-api').map(({ at }) => at);
  const rate = rateOf(calls);
  const burst = mostWithin(calls, 1_000 - JITTER_MS);
  check(
    `${CALLS} calls at ${rate.toFixed(2)} a second (${RATE} are allowed, to within 5 %)`,
    Math.abs(rate / RATE - 1) <= 0.05,
  );
  check(`and never more than ${burst} in a second`, burst <= RATE);

  const { id } = await queue.enqueue('long-export', {});
  await until('long-export', 1);
  const cancelledAt = now();
  await queue.cancel(id);
  await until('long-export', 2);
  const took = (told('long-export').at(-1)?.at ?? Infinity) - cancelledAt;
  check(
    `a job in another process was aborted ${took.toFixed(1)} ms after cancel (limit 100)`,
    took < 100,
  );

  const sum = await queue.enqueueAndWait('sum', { numbers: [1, 2, 3, 4] }, { timeout: '5s' });
  check(`the result from another process: 1 + 2 + 3 + 4 = ${String(sum)}`, sum === 10);

  await until('tick', 5);
  await sleep(1_500); // one more slot, and whoever might fire it twice
  const all = told('tick').map(({ slot }) => slot ?? 0);
  const distinct = new Set(all).size;
  const steps = [...new Set(all)].toSorted((a, b) => a - b);
  const gaps = steps.slice(1).filter((at, i) => at - (steps[i] ?? 0) !== 1_000).length;
  check(
    `a schedule of a second fired ${all.length} times for ${distinct} slots, with ${gaps} left out`,
    all.length === distinct && gaps === 0,
  );
}

function check(what: string, holds: boolean): void {
  if (!holds) failures += 1;
  say(`${holds ? 'ok    ' : 'FAILED'}  ${what}`);
}
