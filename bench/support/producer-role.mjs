// @ts-check
// What a producer process of the benchmark can do: lists, single calls, calls in transactions, and a stream.
import { inLanes, now } from './clock.mjs';
import { stream } from './stream.mjs';
import { openTransactions } from './user-transactions.mjs';

/** @typedef {import('../systems/system.js').System} System */
/** @typedef {import('../systems/system.js').Producer} Producer */

/**
 * @typedef {object} Load
 * @property {string} kind
 * @property {number} n calls, at most
 * @property {number} inFlight
 * @property {number} limitMs no call begins later than this
 */

export class ProducerRole {
  /** @type {Producer | undefined} */
  #producer;

  /**
   * @param {System} system
   * @param {string} url
   */
  constructor(system, url) {
    this.system = system;
    this.url = url;
  }

  async open() {
    this.#producer = await this.system.produce(this.url);
  }

  async close() {
    await this.#producer?.close();
    this.#producer = undefined;
  }

  /**
   * n jobs, spread over the kinds.
   * @param {string[]} kinds
   * @param {number} n
   * @param {number} list payloads of one call, at most
   */
  async enqueueMany(kinds, n, list) {
    const producer = this.#opened();
    const each = Math.ceil(n / kinds.length);
    const calls = [];
    for (const [index, kind] of kinds.entries()) {
      const end = Math.min(n, (index + 1) * each);
      for (let first = index * each; first < end; first += list) {
        calls.push({ kind, payloads: payloads(first, Math.min(list, end - first)) });
      }
    }
    const started = now();
    for (const { kind, payloads } of calls) await producer.enqueueMany(kind, payloads);
    return { n, ms: now() - started };
  }

  /** @param {Load} load */
  async enqueueEach({ kind, n, inFlight, limitMs }) {
    const producer = this.#opened();
    return timed({ n, inFlight, limitMs }, (index) => producer.enqueue(kind, { n: index }));
  }

  /**
   * Each call inside a transaction that does something else too, as an application's does.
   * @param {Load} load
   */
  async enqueueInTransactions({ kind, n, inFlight, limitMs }) {
    const producer = this.#opened();
    if (!producer.enqueueIn) throw new Error('can not enqueue in a transaction of the caller');
    const transactions = await openTransactions(this.url, inFlight);
    try {
      return await timed({ n, inFlight, limitMs }, (index, lane) =>
        transactions.run(lane, index, (client) =>
          this.#opened().enqueueIn?.(client, kind, { n: index }),
        ),
      );
    } finally {
      await transactions.close();
    }
  }

  /** @param {import('./stream.mjs').Stream} options */
  async stream(options) {
    return stream(this.#opened(), options);
  }

  #opened() {
    if (!this.#producer) throw new Error('openProducer comes first');
    return this.#producer;
  }
}

/**
 * @param {{ n: number, inFlight: number, limitMs: number }} bounds
 * @param {(index: number, lane: number) => Promise<void>} call
 */
async function timed({ n, inFlight, limitMs }, call) {
  let begun = 0;
  let ended = 0;
  const started = now();
  const until = started + limitMs;
  await inLanes(inFlight, async (lane) => {
    if (begun >= n || now() > until) return false;
    begun += 1;
    await call(begun, lane);
    ended += 1;
    return true;
  });
  return { n: ended, ms: now() - started };
}

/**
 * @param {number} first
 * @param {number} count
 */
function payloads(first, count) {
  return Array.from({ length: count }, (_, index) => ({ n: first + index }));
}
