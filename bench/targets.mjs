// @ts-check
// What the queue must reach, as data: medians of one run, compared with the best of others in the same test.
import {
  ALWAYS,
  EVERYSEC,
  FLOOR,
  GRAPHILE,
  MORE_SLOTS,
  NO_HISTORY,
  NO_NOTIFY,
  PEER_DEFAULTS,
  POSTGRES_PEERS,
  TEXTBOOK,
} from './tests/contestants.mjs';

/**
 * @typedef {object} Target
 * @property {string} what
 * @property {string} test
 * @property {string} [system] Default: this package with its defaults.
 * @property {string} metric
 * @property {import('./tests/test.js').Column['unit']} unit of the metric
 * @property {number} [atLeast] the metric, or its ratio to that of the best of others
 * @property {number} [atMost]
 * @property {readonly string[]} [ofBest] those others
 */

const REDIS = [EVERYSEC];

/** @type {readonly Target[]} */
export const TARGETS = [
  ...drain('drain', [
    { what: 'drain, no-op, 1 process', atLeast: 1.6, ofBest: POSTGRES_PEERS },
    {
      what: 'the same with keepDone false',
      system: NO_HISTORY,
      atLeast: 2.2,
      ofBest: POSTGRES_PEERS,
    },
    { what: 'drain, no-op, against Redis', atLeast: 3, ofBest: REDIS },
    { what: 'drain, share of the floor', atLeast: 0.7, ofBest: [FLOOR] },
  ]),
  ...drain('drain-4', [
    { what: 'drain, no-op, 4 processes', atLeast: 1.4, ofBest: [...POSTGRES_PEERS, ...REDIS] },
  ]),
  ...drain('drain-1ms', [
    {
      what: 'drain, 1 ms jobs, 1 process',
      atLeast: 2,
      ofBest: [...POSTGRES_PEERS, ...REDIS],
    },
    {
      what: 'the same with 200 slots (the others have 24 to 400)',
      system: MORE_SLOTS,
      atLeast: 2,
      ofBest: [...POSTGRES_PEERS, ...REDIS],
    },
  ]),
  ...drain('drain-1ms-defaults', [
    { what: 'the same, defaults against defaults', atLeast: 10, ofBest: PEER_DEFAULTS },
  ]),
  ...drain('enqueue-20', [
    { what: 'enqueue, 20 in flight', atLeast: 15, ofBest: POSTGRES_PEERS },
    { what: 'the same against Redis, fsync always', atLeast: 2, ofBest: [ALWAYS] },
    { what: 'the same against Redis, fsync everysec', atLeast: 0.9, ofBest: [EVERYSEC] },
  ]),
  ...drain('enqueue-tx', [
    {
      what: 'enqueue in 20 user transactions, against NOTIFY from a trigger',
      atLeast: 3,
      ofBest: [GRAPHILE, TEXTBOOK],
    },
    { what: 'the same against no NOTIFY at all', atLeast: 0.75, ofBest: [NO_NOTIFY] },
  ]),
  ...drain('bulk', [
    { what: 'bulk enqueue', atLeast: 1.8, ofBest: [GRAPHILE] },
    { what: 'bulk enqueue, share of the floor', atLeast: 0.7, ofBest: [FLOOR] },
  ]),
  latency('latency', 'p50', { what: 'latency, p50', atMost: 0.65, ofBest: [GRAPHILE] }),
  latency('latency', 'p50', { what: 'latency, p50, against Redis', atMost: 1.25, ofBest: REDIS }),
  latency('latency', 'p99', { what: 'latency, p99', atMost: 1, ofBest: POSTGRES_PEERS }),
  latency('steady-1000', 'p99', {
    what: 'steady 1,000/s, p99 against Redis',
    atMost: 1.2,
    ofBest: REDIS,
  }),
  latency('steady-5000', 'p99', {
    what: 'steady 5,000/s, p99 against Redis',
    atMost: 1.2,
    ofBest: REDIS,
  }),
  latency('steady-5000', 'p99', { what: 'steady 5,000/s, p99 in ms', atMost: 50 }),
  {
    what: 'steady 5,000/s, keeps up',
    test: 'steady-5000',
    metric: 'keepsUp',
    unit: 'yes',
    atLeast: 1,
  },
  ...['finished', 'future', 'kinds'].map((test) => share(test, 'ofClean', 0.9)),
  share('snapshot', 'lastToFirst', 0.8),
  {
    what: 'idle, 20 processes, statements a second a process',
    test: 'idle-20',
    metric: 'statements',
    unit: 'count',
    atMost: 1,
  },
  {
    what: 'idle, 20 processes, WAL bytes but the heartbeats’',
    test: 'idle-20',
    metric: 'walOther',
    unit: 'count',
    atMost: 0,
  },
];

/**
 * @param {string} test
 * @param {Omit<Target, 'test' | 'metric' | 'unit'>[]} targets
 * @returns {Target[]}
 */
function drain(test, targets) {
  return targets.map((target) => ({ test, metric: 'rate', unit: 'count', ...target }));
}

/**
 * @param {string} test
 * @param {string} metric
 * @param {Omit<Target, 'test' | 'metric' | 'unit'>} target
 * @returns {Target}
 */
function latency(test, metric, target) {
  return { test, metric, unit: 'ms', ...target };
}

/**
 * @param {string} test
 * @param {string} metric
 * @param {number} atLeast
 * @returns {Target}
 */
function share(test, metric, atLeast) {
  const titles = /** @type {Record<string, string>} */ ({
    finished: 'drain with finished jobs, of the clean rate',
    future: 'drain with future jobs, of the clean rate',
    kinds: 'drain of 200 kinds, of the clean rate',
    snapshot: 'drain under a held snapshot, last tenth of the first',
  });
  return { what: titles[test] ?? test, test, metric, unit: 'ratio', atLeast };
}
