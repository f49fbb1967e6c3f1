// @ts-check
// The child process of the benchmark: one system, in one role or several, told what to do by messages.
import { loadSystem } from '../systems/index.mjs';
import { ProducerRole } from './producer-role.mjs';
import { WorkerRole } from './worker-role.mjs';

/** @typedef {{ id: number, method: string, args: unknown[] }} Call */

// The driver may be gone without a word, and while a system is still being loaded too.
process.on('disconnect', () => process.exit());
// Ctrl-C reaches the whole group: the driver ends us.
process.on('SIGINT', () => {});

const [file = '', name = '', url = ''] = process.argv.slice(2);
const system = await loadSystem(file, name);
const worker = new WorkerRole(system, url, tell);
const producer = new ProducerRole(system, url);

/** @type {Record<string, (...args: never[]) => Promise<unknown>>} */
const methods = {
  prepare: (/** @type {string[]} */ kinds) => system.prepare(url, kinds),
  pending: () => system.pending(url),
  fillFinished: (/** @type {number} */ n) => filler('fillFinished')(url, n),
  fillFuture: (/** @type {number} */ n) => filler('fillFuture')(url, n),
  fillRunning: (/** @type {number} */ n) => filler('fillRunning')(url, n),
  fillSaturated: (/** @type {number} */ n) => filler('fillSaturated')(url, n),
  startWorker: (/** @type {import('./worker-role.mjs').Work} */ work) => worker.start(work),
  openGate: async () => worker.openGate(),
  handled: async () => worker.report(),
  stamps: async () => worker.stamps(),
  stopWorker: () => worker.stop(),
  openProducer: () => producer.open(),
  enqueueMany: (
    /** @type {string[]} */ kinds,
    /** @type {number} */ n,
    /** @type {number} */ list,
  ) => producer.enqueueMany(kinds, n, list),
  enqueueEach: (/** @type {import('./producer-role.mjs').Load} */ load) =>
    producer.enqueueEach(load),
  enqueueInTransactions: (/** @type {import('./producer-role.mjs').Load} */ load) =>
    producer.enqueueInTransactions(load),
  stream: (/** @type {import('./stream.mjs').Stream} */ stream) => producer.stream(stream),
  closeProducer: () => producer.close(),
};

process.on('message', (/** @type {Call} */ call) => void answer(call));
tell('ready');

/** @param {Call} call */
async function answer({ id, method, args }) {
  try {
    const run = methods[method];
    if (!run) throw new Error(`An actor has no method ${method}`);
    process.send?.({ id, result: await run(.../** @type {never[]} */ (args)) });
  } catch (error) {
    process.send?.({
      id,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  }
}

/**
 * @param {string} event
 * @param {unknown} [detail]
 */
function tell(event, detail) {
  if (process.connected) process.send?.({ event, detail });
}

/** @param {'fillFinished' | 'fillFuture' | 'fillRunning' | 'fillSaturated'} what */
function filler(what) {
  const fill = system[what];
  if (!fill) throw new Error(`${name} has no ${what}`);
  return fill.bind(system);
}
