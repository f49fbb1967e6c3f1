// @ts-check
// The driver's side of an actor: a child process, its methods as promises, its events as callbacks.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { within } from './clock.mjs';

const ACTOR = fileURLToPath(new URL('actor.mjs', import.meta.url));
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 5_000;
const LOG_CHARACTERS = 4_000;

/** @typedef {import('../systems/index.mjs').Contestant} Contestant */

/** All that run, so that none outlives the driver. @type {Set<ActorProcess>} */
const running = new Set();

export function killAll() {
  for (const actor of running) actor.kill();
}

export class ActorProcess {
  #calls = 0;
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */
  #open = new Map();
  /** @type {Map<string, (detail: any) => void>} */
  #listeners = new Map();
  /** Events that nobody listened to yet. @type {Set<string>} */
  #missed = new Set();
  #log = '';
  #isExpected = false;

  /**
   * @param {Contestant} contestant
   * @param {string} url
   */
  constructor({ file, system }, url) {
    this.name = system.name;
    this.child = fork(ACTOR, [file, system.name, url], {
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...process.env, NODE_ENV: 'production' },
    });
    running.add(this);
    for (const output of [this.child.stdout, this.child.stderr]) {
      // What it says is shown only if it fails.
      output?.setEncoding('utf8').on('data', (text) => {
        this.#log = (this.#log + text).slice(-LOG_CHARACTERS);
      });
    }
    this.child.on('message', (/** @type {any} */ message) => this.#receive(message));
    this.ended = this.#watch();
  }

  get pid() {
    return this.child.pid ?? 0;
  }

  async ready() {
    const ready = this.once('ready');
    const lost = this.ended.then(() => {
      throw new Error(`A process of ${this.name} did not start:\n${this.#log}`);
    });
    lost.catch(() => {});
    await within(
      START_LIMIT_MS,
      `The start of a process of ${this.name}`,
      Promise.race([ready, lost]),
    );
    return this;
  }

  /**
   * @param {'ready' | 'waiting' | 'handled' | 'lost'} event
   * @param {(detail: any) => void} listener
   */
  on(event, listener) {
    this.#listeners.set(event, listener);
  }

  /**
   * @param {'ready' | 'waiting'} event
   * @returns {Promise<void>} resolved at once if it has happened already
   */
  once(event) {
    return new Promise((resolve) => {
      if (this.#missed.has(event)) resolve();
      else this.on(event, () => resolve());
    });
  }

  /**
   * @param {string} method
   * @param {...unknown} args
   * @returns {Promise<any>}
   */
  call(method, ...args) {
    return new Promise((resolve, reject) => {
      const id = (this.#calls += 1);
      this.#open.set(id, { resolve, reject });
      this.child.send({ id, method, args }, (error) => {
        if (error && this.#open.delete(id)) reject(error);
      });
    });
  }

  kill() {
    this.#isExpected = true;
    this.child.kill('SIGKILL');
  }

  /** Lets it leave the database in order, for a moment, then ends it. */
  async stop() {
    this.#isExpected = true;
    const orderly = Promise.allSettled([this.call('stopWorker'), this.call('closeProducer')]);
    await within(STOP_LIMIT_MS, 'the stop', orderly).catch(() => {});
    this.kill();
    await this.ended;
  }

  /** Resolves when the process has ended, and tells whoever waits for it. */
  async #watch() {
    const [code, signal] = await once(this.child, 'exit');
    running.delete(this);
    const error = new Error(
      `A process of ${this.name} ended (${signal ?? code})${this.#log && `:\n${this.#log}`}`,
    );
    for (const { reject } of this.#open.values()) reject(error);
    this.#open.clear();
    if (!this.#isExpected) this.#listeners.get('lost')?.(error);
  }

  /** @param {any} message */
  #receive(message) {
    if (message.event !== undefined) {
      const listener = this.#listeners.get(message.event);
      if (listener) listener(message.detail);
      else this.#missed.add(message.event);
      return;
    }
    const call = this.#open.get(message.id);
    this.#open.delete(message.id);
    if (message.error === undefined) call?.resolve(message.result);
    else call?.reject(new Error(message.error));
  }
}
