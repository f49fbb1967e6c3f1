import { hostname } from 'node:os';
import { checkedLimit, type Limit, type LimitRecord } from './limits.js';
import {
  checkConnectionString,
  duration,
  invalid,
  isPlainObject,
  queueName,
  refuseUnknown,
  wholeNumber,
} from './option-checks.js';
import type {
  PgQueueOptions,
  ResolvedOptions,
  ResolvedWorkerOptions,
  WorkerOptions,
} from './options.js';

/** Every default of the package, in one place. Durations in milliseconds. */
export const DEFAULTS = {
  queue: 'default',
  maxAttempts: 5,
  maxConnections: 10,
  schema: 'pgqueue',
  migrate: 'auto',
  concurrency: 20,
  lease: 30_000,
  /** A third of the lease: two heartbeats may be lost. */
  heartbeatShareOfLease: 1 / 3,
  pollInterval: 2_000,
  pollIntervalWithoutListener: 500,
  shutdownGrace: 10_000,
  waitTimeout: 30_000,
  keepDone: 7 * 86_400_000,
  keepFailed: 90 * 86_400_000,
  backoff: { type: 'exponential', base: 2_000, max: 600_000, factor: 2, jitter: 0.5 },
} as const;

const OPTION_NAMES = [
  'connectionString',
  'pool',
  'maxConnections',
  'schema',
  'migrate',
  'worker',
  'listen',
  'keepDone',
  'keepFailed',
  'retryable',
  'limits',
] as const satisfies readonly (keyof PgQueueOptions)[];

const WORKER_OPTION_NAMES = [
  'name',
  'concurrency',
  'queues',
  'lease',
  'heartbeat',
  'pollInterval',
  'shutdownGrace',
] as const satisfies readonly (keyof WorkerOptions)[];

/**
 * Checks the options and fills in the defaults.
 * @throws PgQueueError `INVALID_OPTION`, naming the option and what it may be.
 */
export function resolveOptions(options: PgQueueOptions): ResolvedOptions {
  if (!isPlainObject(options)) throw invalid('options', typeof options, 'an object');
  refuseUnknown('PgQueueModule options', options, OPTION_NAMES);
  const { connectionString, pool } = options;
  if (connectionString === undefined && pool === undefined) {
    throw invalid(
      'connectionString',
      connectionString,
      'a connection string, unless `pool` is given',
    );
  }
  if (connectionString !== undefined) checkConnectionString('connectionString', connectionString);
  if (pool !== undefined && typeof pool?.connect !== 'function') {
    throw invalid('pool', typeof pool, 'a pg.Pool');
  }
  const listen = resolveListen(options.listen);
  const worker = resolveWorker(options.worker, listen !== undefined);
  if (connectionString === undefined && pool?.options === undefined) {
    throw invalid(
      'connectionString',
      undefined,
      'given beside a `pool` that has no `options`, so that the queue can make connections of its own',
    );
  }
  return {
    connectionString,
    pool,
    maxConnections: wholeNumber('maxConnections', options.maxConnections, DEFAULTS.maxConnections),
    schema: resolveSchema(options.schema),
    migrate: resolveMigrate(options.migrate),
    worker,
    listen,
    keepDone: resolveKeep('keepDone', options.keepDone, DEFAULTS.keepDone),
    keepFailed: resolveKeep('keepFailed', options.keepFailed, DEFAULTS.keepFailed),
    retryable: resolveFunction('retryable', options.retryable),
    limits: resolveLimits(options.limits),
  };
}

function resolveWorker(
  worker: PgQueueOptions['worker'],
  listens: boolean,
): ResolvedWorkerOptions | false {
  return worker === false ? false : resolveWorkerOptions(worker, listens);
}

/** The worker's options with every default filled in. */
export function resolveWorkerOptions(
  options: WorkerOptions = {},
  listens = false,
): ResolvedWorkerOptions {
  if (!isPlainObject(options)) {
    throw invalid('worker', options, 'false or an object of worker options');
  }
  refuseUnknown('worker options', options, WORKER_OPTION_NAMES);
  const lease = duration('worker.lease', options.lease, DEFAULTS.lease, 500);
  const heartbeat = duration(
    'worker.heartbeat',
    options.heartbeat,
    Math.round(lease * DEFAULTS.heartbeatShareOfLease),
    50,
  );
  if (heartbeat * 2 > lease) {
    throw invalid(
      'worker.heartbeat',
      options.heartbeat,
      `at most half of the lease (${lease} ms), so that one lost heartbeat costs nothing`,
    );
  }
  const concurrency = wholeNumber('worker.concurrency', options.concurrency, DEFAULTS.concurrency);
  return {
    name: resolveName('worker.name', options.name, `${hostname()}:${process.pid}`),
    concurrency,
    queues: resolveQueues(options.queues, concurrency),
    lease,
    heartbeat,
    pollInterval: duration(
      'worker.pollInterval',
      options.pollInterval,
      listens ? DEFAULTS.pollInterval : DEFAULTS.pollIntervalWithoutListener,
      10,
    ),
    shutdownGrace: duration('worker.shutdownGrace', options.shutdownGrace, DEFAULTS.shutdownGrace),
  };
}

function resolveQueues(
  queues: WorkerOptions['queues'],
  concurrency: number,
): ReadonlyMap<string, number> | undefined {
  if (queues === undefined) return undefined;
  if (queues === null || typeof queues !== 'object') {
    throw invalid(
      'worker.queues',
      queues,
      'a list of names, or an object from name to { concurrency }',
    );
  }
  const entries: [string, { readonly concurrency?: number }][] = Array.isArray(queues)
    ? queues.map((name: string) => [name, {}])
    : Object.entries(queues as Record<string, { concurrency?: number }>);
  if (entries.length === 0)
    throw invalid(
      'worker.queues',
      '[]',
      'at least one queue; use `worker: false` for a process that does not work',
    );
  return new Map(
    entries.map(([name, settings]) => [
      queueName(`worker.queues`, name),
      queueConcurrency(`worker.queues.${name}`, settings, concurrency),
    ]),
  );
}

function queueConcurrency(
  option: string,
  settings: { readonly concurrency?: number },
  otherwise: number,
): number {
  if (!isPlainObject(settings)) throw invalid(option, settings, 'an object: { concurrency }');
  refuseUnknown(`options of \`${option}\``, settings, ['concurrency']);
  return wholeNumber(`${option}.concurrency`, settings.concurrency, otherwise);
}

function resolveListen(listen: PgQueueOptions['listen']): ResolvedOptions['listen'] {
  if (listen === false) return undefined;
  if (listen === true || listen === undefined) return { connectionString: undefined };
  if (!isPlainObject(listen)) {
    throw invalid('listen', typeof listen, 'true, false or { connectionString }');
  }
  refuseUnknown('options of `listen`', listen, ['connectionString']);
  checkConnectionString('listen.connectionString', listen.connectionString);
  return { connectionString: listen.connectionString };
}

function resolveMigrate(migrate: PgQueueOptions['migrate']): ResolvedOptions['migrate'] {
  const value = migrate ?? DEFAULTS.migrate;
  if (value === 'auto' || value === 'check' || value === false) return value;
  throw invalid('migrate', value, "'auto', 'check' or false");
}

function resolveSchema(schema: string | undefined): string {
  const value = schema ?? DEFAULTS.schema;
  const fits = typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= 63;
  if (!fits || value.includes('\0')) {
    throw invalid('schema', value, 'an identifier of 1 to 63 bytes');
  }
  if (value.startsWith('pg_') || value === 'information_schema') {
    throw invalid('schema', value, 'a name that PostgreSQL does not reserve');
  }
  return value;
}

function resolveKeep(option: string, value: unknown, otherwise: number): number | false {
  return value === false ? false : duration(option, value, otherwise);
}

function resolveLimits(limits: PgQueueOptions['limits'] = []): LimitRecord[] {
  if (!Array.isArray(limits)) throw invalid('limits', limits, 'a list of limits');
  return limits.map((limit: Limit, index) => checkedLimit(`limits[${index}]`, limit));
}

function resolveFunction<F>(option: string, value: F | undefined): F | undefined {
  if (value === undefined || typeof value === 'function') return value;
  throw invalid(option, value, 'a function');
}

function resolveName(option: string, value: string | undefined, otherwise: string): string {
  if (value === undefined) return otherwise;
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) return value;
  throw invalid(option, value, 'a non-empty string');
}
