// @ts-check
// What a worker process of the benchmark does besides working: it holds the first jobs back until the clock
// starts, counts, and takes the time of the first line of a handler.
import { setTimeout as delay } from 'node:timers/promises';
import { now } from './clock.mjs';

/** @typedef {import('../systems/system.js').System} System */
/** @typedef {import('../systems/system.js').Profile} Profile */

/**
 * @typedef {object} Work
 * @property {string[]} kinds
 * @property {Profile} profile
 * @property {number} [jobMs] how long a handler takes. Default: it returns at once.
 * @property {boolean} [gated] whether handlers are held back until openGate()
 * @property {number} [marks] take the time at every so many jobs
 * @property {boolean} [stamps] keep the time of each handler's first line, by the payload's n
 * @property {boolean} [forever] handlers never return
 */

/** The driver hears of progress this often, and at once of the first job. */
const REPORT_MS = 10;

export class WorkerRole {
  /** @type {{ stop(): Promise<void> } | undefined} */
  #worker;
  #count = 0;
  #reported = 0;
  #isTimed = false;
  #isWaiting = false;
  /** @type {number[]} */
  #marks = [];
  /** @type {number[]} by the payload's n; 0 = not begun */
  #stamps = [];
  /** @type {Promise<void> | undefined} */
  #gate;
  #open = () => {};

  /**
   * @param {System} system
   * @param {string} url
   * @param {(event: string, detail?: unknown) => void} tell
   */
  constructor(system, url, tell) {
    this.system = system;
    this.url = url;
    this.tell = tell;
  }

  /** @param {Work} work */
  async start({ kinds, profile, ...work }) {
    if (work.gated) {
      this.#gate = new Promise((resolve) => {
        this.#open = resolve;
      });
    }
    this.#worker = await this.system.work(this.url, {
      kinds,
      profile,
      handler: this.#handler(work),
    });
  }

  openGate() {
    this.#gate = undefined;
    this.#open();
  }

  /** What has been handled so far. */
  report() {
    return { count: this.#count, marks: this.#marks };
  }

  /** When each job's first line ran, by its payload's n; NaN = it did not. */
  stamps() {
    return { stamps: Float64Array.from(this.#stamps) };
  }

  async stop() {
    await this.#worker?.stop();
    this.#worker = undefined;
  }

  /**
   * One small function for each case, so that no test pays for what another one wants.
   * @param {Omit<Work, 'kinds' | 'profile'>} work
   * @returns {(payload: { n: number }) => Promise<void> | void}
   */
  #handler({ jobMs, stamps, forever, marks = Infinity }) {
    if (forever) return () => new Promise(() => {});
    if (stamps) {
      return ({ n }) => {
        this.#stamps[n] ||= now();
        this.#count += 1;
      };
    }
    const done = () => {
      this.#count += 1;
      if (this.#count % marks === 0) this.#marks.push(now());
      if (!this.#isTimed) this.#reportSoon();
    };
    const slow = async () => {
      await this.#gate;
      if (jobMs !== undefined) await delay(jobMs);
      done();
    };
    return () => {
      if (this.#gate === undefined && jobMs === undefined) return done();
      if (this.#gate !== undefined && !this.#isWaiting) {
        this.#isWaiting = true;
        this.tell('waiting');
      }
      return slow();
    };
  }

  #reportSoon() {
    this.#isTimed = true;
    setTimeout(() => {
      this.#isTimed = false;
      if (this.#count === this.#reported) return;
      this.#reported = this.#count;
      this.tell('handled', { count: this.#count, at: now() });
    }, REPORT_MS).unref();
  }
}
