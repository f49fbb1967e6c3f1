// @ts-check
// graphile-worker: its documented settings for many jobs, and what it does when nobody sets anything.
import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { ask, askNumber } from '../support/side-connection.mjs';

/** @typedef {import('./system.js').System} System */
/** @typedef {import('./system.js').Profile} Profile */
/** @typedef {import('./system.js').WorkOptions} WorkOptions */

const { version } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.resolve('graphile-worker')), 'utf8'),
);
// It logs every job; nobody would let it at such rates.
const logger = new Logger(() => () => {});

/** Enqueues that a test has in flight. */
const PRODUCER_CONNECTIONS = 20;
const ADD_JOB = 'select graphile_worker.add_job($1, $2)';
// From its own performance test: 55 to 60 k/s, and utils.addJobs 30 to 40 k/s, as it reads all rows back.
const ADD_JOBS = `
  select 1 from graphile_worker.add_jobs(
    array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`;

/** @type {System[]} */
export default [
  contestant('graphile-worker', {
    settings:
      'localQueue size 2000 (500 for latency and steady streams), batch delays 0, concurrentJobs 24 and a pool of ' +
      '25 (400 and 10 for 1 ms jobs); its SQL functions, prepared; logger off',
    worker: (profile) => {
      // 1 ms jobs: 100 ran 9.7 to 19 k/s, 200 20, 400 15 to 22. With batches a small pool does: 10 connections
      // ran 15 to 20 k/s where 400 ran 11 to 20.
      const load =
        profile === 'wait'
          ? { concurrentJobs: 400, maxPoolSize: 10 }
          : { concurrentJobs: 24, maxPoolSize: 25 };
      return {
        ...load,
        localQueue: { size: localQueueSize(profile) },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      };
    },
  }),
  contestant('graphile-worker-defaults', {
    settings: 'defaults: 1 job at a time, one claim and one delete each; logger off',
    worker: () => ({}),
  }),
];

/**
 * The 500 of its documentation drain 14 to 19 k/s where 1000 reach 19 to 25, and 2000 and 4000 24 to 31. Without a
 * local queue the latency is worse (p50 7.7 ms against 4.8), as a new job wakes all idle loops to claim it.
 * @param {Profile} profile
 */
function localQueueSize(profile) {
  return profile === 'noop' || profile === 'wait' ? 2000 : 500;
}

/**
 * @param {string} name
 * @param {{ settings: string, worker: (profile: Profile) => Partial<GraphileConfig.WorkerOptions> }} options
 * @returns {System}
 */
function contestant(name, { settings, worker }) {
  return {
    name,
    store: 'postgres',
    describe: () => ({ version, settings }),

    prepare: async (url) => {
      await ask(url, 'drop schema if exists graphile_worker cascade');
      const utils = await utilsFor(url);
      await utils.migrate();
      await utils.release();
    },

    produce: async (url) => {
      const utils = await utilsFor(url);
      /** @param {import('pg').QueryConfig} query */
      const send = async (query) =>
        void (await utils.withPgClient((client) => client.query(query)));
      return {
        enqueue: (kind, payload) =>
          send({ name: 'add_job', text: ADD_JOB, values: [kind, JSON.stringify(payload)] }),
        enqueueMany: (kind, payloads) => {
          const jobs = payloads.map((payload) => ({ identifier: kind, payload }));
          return send({ text: ADD_JOBS, values: [JSON.stringify(jobs)] });
        },
        enqueueIn: async (client, kind, payload) => {
          const values = [kind, JSON.stringify(payload)];
          await client.query({ name: 'add_job', text: ADD_JOB, values });
        },
        close: async () => utils.release(),
      };
    },

    work: async (url, { kinds, profile, handler }) => {
      const events = new EventEmitter();
      const listens = once(events, 'pool:listen:success');
      const runner = await run({
        preset: { worker: { connectionString: url, logger, ...worker(profile) } },
        taskList: Object.fromEntries(
          kinds.map((kind) => [kind, (/** @type {unknown} */ payload) => handler(payload)]),
        ),
        events,
        noHandleSignals: true,
      });
      await listens;
      return { stop: () => runner.stop() };
    },

    pending: (url) =>
      askNumber(url, 'select count(*) from graphile_worker._private_jobs where run_at <= now()'),

    // It keeps no finished jobs, so there is no fillFinished.
    fillFuture: async (url, n) => {
      await ask(
        url,
        `select count(*) from graphile_worker.add_jobs(array(
           select row('noop', json_build_object('n', i), null, now() + interval '1 day' + i * interval '1 s',
                      null, null, null, null)::graphile_worker.job_spec
             from generate_series(1, $1::int) i))`,
        [n],
      );
    },
  };
}

/** @param {string} url */
function utilsFor(url) {
  return makeWorkerUtils({
    preset: { worker: { connectionString: url, maxPoolSize: PRODUCER_CONNECTIONS, logger } },
  });
}
