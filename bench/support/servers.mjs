// @ts-check
// The servers of a run: one PostgreSQL, and a Redis for each way of writing to disk, started when first needed.
import { PostgresLab } from './postgres-lab.mjs';
import { Stage } from './stage.mjs';

/** @typedef {import('../systems/index.mjs').Contestant} Contestant */
/** @typedef {{ url: string, version: string, pid: number, stop: () => Promise<void> }} Redis */

export class Servers {
  #databases = 0;
  /** @type {Promise<void> | undefined} */
  #stopped;
  /** @type {Map<'everysec' | 'always', Promise<Redis | undefined>>} */
  #redis = new Map();

  /** @param {PostgresLab} postgres */
  constructor(postgres) {
    this.postgres = postgres;
  }

  static async start() {
    return new Servers(await PostgresLab.start());
  }

  /**
   * An empty place for one measurement.
   * @param {Contestant} contestant
   */
  async stage(contestant) {
    const { name, store } = contestant.system;
    if (store === 'postgres') {
      this.#databases += 1;
      const database = `bench_${this.#databases}`;
      const url = await this.postgres.createDatabase(database);
      return new Stage(this, contestant, { url, database, pid: this.postgres.postmaster });
    }
    const redis = await this.redis(store === 'redis-always' ? 'always' : 'everysec');
    if (!redis) throw new Error(`${name}: Redis is not installed`);
    return new Stage(this, contestant, { url: redis.url, database: undefined, pid: redis.pid });
  }

  /**
   * @param {'everysec' | 'always'} fsync
   * @returns {Promise<Redis | undefined>} undefined = not installed
   */
  redis(fsync) {
    const started = this.#redis.get(fsync) ?? startRedis(fsync);
    this.#redis.set(fsync, started);
    return started;
  }

  /** Of the Redis that was used, for the report. */
  async redisVersion() {
    if (this.#redis.size === 0) return 'not used';
    for (const started of this.#redis.values()) {
      const redis = await started.catch(() => undefined);
      if (redis) return redis.version;
    }
    return 'not installed, so its systems are left out';
  }

  /** @param {import('../systems/system.js').Store} store */
  async has(store) {
    if (store === 'postgres') return true;
    return (await this.redis(store === 'redis-always' ? 'always' : 'everysec')) !== undefined;
  }

  /** Whoever asks again waits for the same end. */
  stop() {
    return (this.#stopped ??= this.#stop());
  }

  async #stop() {
    for (const started of this.#redis.values()) {
      const redis = await started.catch(() => undefined);
      await redis?.stop();
    }
    await this.postgres.stop();
  }
}

/** @param {'everysec' | 'always'} fsync */
async function startRedis(fsync) {
  // Imported late: a run without Redis systems needs none of it.
  const { startRedis } = await import('./redis.mjs');
  return startRedis({ fsync });
}
