// @ts-check
// This package, as an application uses it: a Nest application with one provider, and nothing tuned.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { VERSION } from '../build/contracts/version.js';
import { JobHandler, PgQueueModule, QueueService } from '../build/index.js';
import { ask, askNumber } from '../support/side-connection.mjs';

/** @typedef {import('./system.js').System} System */
/** @typedef {import('./system.js').WorkOptions} WorkOptions */
/** @typedef {import('../build/index.js').PgQueueOptions} PgQueueOptions */

/** @type {System[]} */
export default [
  contestant('pg-queue', {}, 'defaults'),
  contestant('pg-queue-no-history', { keepDone: false }, 'keepDone: false, else defaults'),
  contestant(
    'pg-queue-200-slots',
    { worker: { concurrency: 200 } },
    'worker.concurrency 200, else defaults: for 1 ms jobs, of which 20 slots can end no more than 17,000 a second',
  ),
  withoutBell(contestant('pg-queue-no-notify', {}, 'its insert trigger switched off: polling')),
];

/**
 * @param {string} name
 * @param {PgQueueOptions} options
 * @param {string} settings
 * @returns {System}
 */
function contestant(name, options, settings) {
  return {
    name,
    store: 'postgres',
    heartbeat: /heartbeat/,
    describe: () => ({ version: VERSION, settings }),

    prepare: async (url) => {
      const app = await start({ ...options, connectionString: url, worker: false });
      await app.close();
    },

    produce: async (url) => {
      const app = await start({ ...options, connectionString: url, worker: false });
      const queue = app.get(QueueService);
      return {
        enqueue: async (kind, payload) => void (await queue.enqueue(kind, payload)),
        enqueueMany: async (kind, payloads) =>
          void (await queue.enqueueMany(payloads.map((payload) => ({ kind, payload })))),
        enqueueIn: async (tx, kind, payload) => void (await queue.enqueue(kind, payload, { tx })),
        close: () => app.close(),
      };
    },

    work: async (url, work) => {
      const app = await start({ ...options, connectionString: url }, [handlersFor(work)]);
      return { stop: () => app.close() };
    },

    pending: (url) => askNumber(url, `select count(*) from pgqueue.jobs where waits_for is null`),

    fillFinished: async (url, n) => {
      await ask(
        url,
        `insert into pgqueue.done_jobs (id, queue, kind, payload, status, priority, run_at, attempts,
                                        max_attempts, lease_no, created_at, finished_at)
         select -i, 'default', 'noop', jsonb_build_object('n', i), 'done', 0, now(), 1, 5, 1, now(), now()
           from generate_series(1, $1::int) i`,
        [n],
      );
    },

    fillFuture: async (url, n) => {
      await ask(
        url,
        `insert into pgqueue.jobs (kind, payload, run_at)
         select 'noop', jsonb_build_object('n', i), now() + interval '1 day' + i * interval '1 s'
           from generate_series(1, $1::int) i`,
        [n],
      );
    },

    fillSaturated: async (url, n) => {
      await ask(
        url,
        `insert into pgqueue.limits (name, kinds, by, max_running)
         values ('per tenant', '{elsewhere}', '{tenant}', 0)`,
      );
      await ask(
        url,
        `insert into pgqueue.jobs (kind, payload, run_at, waits_for, parked_on)
         select 'elsewhere', '{"tenant": "busy"}', now() - interval '1 hour', 'slot', 'per tenant/busy'
           from generate_series(1, $1::int) i`,
        [n],
      );
    },

    // Taken by the worker that runs already, as if it had so many slots. The jobs come first, so that a
    // claim meets them before any other.
    fillRunning: async (url, n) => {
      await ask(
        url,
        `insert into pgqueue.jobs (kind, payload, run_at, locked_by, attempts, lease_no)
         select 'noop', jsonb_build_object('n', i), now() - interval '1 hour', w.id, 1, 1
           from generate_series(1, $1::int) i, (select id from pgqueue.workers limit 1) w`,
        [n],
      );
    },
  };
}

/**
 * @param {System} system
 * @returns {System}
 */
function withoutBell(system) {
  return {
    ...system,
    prepare: async (url, kinds) => {
      await system.prepare(url, kinds);
      await ask(url, 'alter table pgqueue.jobs disable trigger jobs_ring');
    },
  };
}

/**
 * @param {PgQueueOptions} options
 * @param {import('@nestjs/common').Provider[]} [providers]
 */
async function start(options, providers = []) {
  // oxlint-disable-next-line typescript/no-extraneous-class -- as every root module
  class App {}
  Module({ imports: [PgQueueModule.forRoot(options)], providers })(App);
  return NestFactory.createApplicationContext(App, { logger: ['error', 'warn'] });
}

/**
 * What `@JobHandler(kind) run(payload) {}` makes, for kinds known at run time only.
 * @param {WorkOptions} options
 */
function handlersFor({ kinds, handler }) {
  class Handlers {
    /** @param {unknown} payload */
    run(payload) {
      return handler(payload);
    }
  }
  const method = /** @type {PropertyDescriptor} */ (
    Object.getOwnPropertyDescriptor(Handlers.prototype, 'run')
  );
  for (const kind of kinds) JobHandler(kind)(Handlers.prototype, 'run', method);
  Injectable()(Handlers);
  return Handlers;
}
