// @ts-check
// One measurement: a place for the system's tables, its processes, the clock and the meters.
import { ActorProcess } from './actor-process.mjs';
import { now, within } from './clock.mjs';
import { compareTimes, sampleTimes } from './cpu.mjs';
import { settleTables } from './postgres-lab.mjs';

/** @typedef {import('../systems/index.mjs').Contestant} Contestant */
/** @typedef {import('./servers.mjs').Servers} Servers */

/**
 * What a measurement cost.
 * @typedef {object} Meters
 * @property {number} serverCpu percent of one processor
 * @property {number} nodeCpu percent of one processor, producers and workers together
 * @property {number} othersCpu percent of the whole machine
 * @property {number} wal bytes
 */

const PREPARE_LIMIT_MS = 180_000;

export class Stage {
  /** @type {ActorProcess[]} */
  #actors = [];
  /** @type {ActorProcess | undefined} */
  #backstage;
  /** Started, and without a role yet. @type {Promise<ActorProcess>[]} */
  #waiting = [];
  /** @type {Stage[]} */
  #others = [];
  /** Those whose processor time counts. @type {ActorProcess[]} */
  #measured = [];

  /**
   * @param {Servers} servers
   * @param {Contestant} contestant
   * @param {{ url: string, database: string | undefined, pid: number | undefined }} place
   */
  constructor(servers, contestant, place) {
    this.servers = servers;
    this.contestant = contestant;
    this.url = place.url;
    this.database = place.database;
    this.serverPid = place.pid;
    /** Rejects when a process ends that should not. @type {Promise<never>} */
    this.trouble = new Promise((_, reject) => {
      this.fail = reject;
    });
    this.trouble.catch(() => {});
  }

  get system() {
    return this.contestant.system;
  }

  /**
   * @param {string[]} kinds
   * @param {number} [crew] how many workers and producers there will be: they load their code meanwhile
   */
  async prepare(kinds, crew = 1) {
    this.#backstage = await this.#start();
    this.#waiting = Array.from({ length: crew }, () => this.#start());
    for (const start of this.#waiting) start.catch(() => {});
    await this.prompt('prepare', kinds);
  }

  /**
   * Asks the process behind the scenes, whose time does not count.
   * @param {string} method
   * @param {...unknown} args
   */
  async prompt(method, ...args) {
    const backstage = (this.#backstage ??= await this.#start());
    return this.guard(method, PREPARE_LIMIT_MS, backstage.call(method, ...args));
  }

  /**
   * Jobs that lie there before the clock starts.
   * @param {string[]} kinds
   * @param {number} n
   */
  async preload(kinds, n) {
    await this.prompt('openProducer');
    await this.prompt('enqueueMany', kinds, n, 10_000);
    await this.prompt('closeProducer');
  }

  /** @param {import('./worker-role.mjs').Work} work */
  async worker(work) {
    const actor = await (this.#waiting.shift() ?? this.#start());
    this.#measured.push(actor);
    await this.guard('the start of a worker', PREPARE_LIMIT_MS, actor.call('startWorker', work));
    return actor;
  }

  async producer() {
    const actor = await (this.#waiting.shift() ?? this.#start());
    this.#measured.push(actor);
    await this.guard('the start of a producer', PREPARE_LIMIT_MS, actor.call('openProducer'));
    return actor;
  }

  /** Tables as they are in the long run, and the disk at rest. */
  async settle() {
    if (this.database === undefined) return;
    await settleTables(this.url);
    await this.servers.postgres.checkpoint();
  }

  /**
   * Starts the clock and the meters; the function that it returns stops them.
   * @returns {Promise<() => Promise<{ startedAt: number, ms: number, meters: Meters }>>}
   */
  async measure() {
    const nodes = this.#measured.map(({ pid }) => pid);
    const backstage = this.#backstage ? [this.#backstage.pid] : [];
    const pids = { server: this.serverPid, nodes, stagehands: [process.pid, ...backstage] };
    const wal = await this.#walPosition();
    const before = sampleTimes(pids);
    const startedAt = now();
    return async () => {
      const endedAt = now();
      const after = sampleTimes(pids);
      return {
        startedAt,
        ms: endedAt - startedAt,
        meters: { ...compareTimes(before, after), wal: (await this.#walPosition()) - wal },
      };
    };
  }

  /**
   * @template T
   * @param {string} what
   * @param {number} limitMs
   * @param {Promise<T>} work
   * @returns {Promise<T>}
   */
  guard(what, limitMs, work) {
    return within(limitMs, `${what} (${this.system.name})`, Promise.race([work, this.trouble]));
  }

  /**
   * Another measurement of the same system, in a place of its own that is cleared afterwards.
   * @template T
   * @param {(stage: Stage) => Promise<T>} work
   */
  async beside(work) {
    const other = await this.servers.stage(this.contestant);
    this.#others.push(other);
    const result = await work(other);
    await other.clear();
    return result;
  }

  async clear() {
    await Promise.all(this.#others.map((other) => other.clear()));
    await Promise.all(this.#actors.map((actor) => actor.stop()));
    if (this.database !== undefined) await this.servers.postgres.dropDatabase(this.database);
  }

  async #start() {
    const actor = new ActorProcess(this.contestant, this.url);
    this.#actors.push(actor);
    actor.on('lost', (error) => this.fail(error));
    return actor.ready();
  }

  async #walPosition() {
    return this.database === undefined ? NaN : this.servers.postgres.walPosition();
  }
}
