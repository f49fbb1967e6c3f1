// @ts-check
// What processes cost that have nothing to do.
import { setTimeout as delay } from 'node:timers/promises';
import { inLanes } from '../support/clock.mjs';
import { GRAPHILE, OURS, PG_BOSS, TEXTBOOK } from './contestants.mjs';

/** @typedef {import('./test.js').Size & { processes: number, seconds: number, settleSeconds: number }} IdleSize */
/** @typedef {import('./test.js').BenchmarkTest<IdleSize>} IdleTest */

const STARTING_AT_ONCE = 4;
const ALL = [OURS, PG_BOSS, GRAPHILE, 'bullmq-pg', TEXTBOOK];

/** @type {IdleTest[]} */
export const idles = [idleTest(1), idleTest(20)];

/**
 * @param {number} processes
 * @returns {IdleTest}
 */
function idleTest(processes) {
  return {
    name: `idle-${processes}`,
    title: `Idle, ${processes} ${processes === 1 ? 'process' : 'processes'}`,
    about:
      'Statements by pg_stat_statements, WAL by position, so the last column of both includes what PostgreSQL itself ' +
      'writes; "other statements": WAL of statements that are no heartbeat.',
    sizes: {
      full: {
        processes,
        seconds: 20,
        settleSeconds: 12,
        rounds: 1,
        watchdogMs: 180_000,
        systems: ALL,
      },
      quick: {
        processes,
        seconds: 8,
        settleSeconds: 5,
        rounds: processes > 1 ? 1 : 0,
        watchdogMs: 90_000,
        systems: [OURS],
      },
    },
    ranking: { metric: 'statements', best: 'lowest' },
    columns: [
      { metric: 'statements', title: 'statements/s a process', unit: 'count' },
      { metric: 'wal', title: 'WAL bytes/s', unit: 'count' },
      { metric: 'walOther', title: 'WAL bytes of other statements', unit: 'count' },
    ],
    measure: async (stage, { processes, seconds, settleSeconds }) => {
      const { database, servers, system } = stage;
      if (database === undefined) throw new Error('only on PostgreSQL');
      await stage.prepare(['noop']);
      await servers.postgres.countStatements(database);
      await servers.postgres.checkpoint();
      let left = processes;
      await inLanes(STARTING_AT_ONCE, async () => {
        if (left === 0) return false;
        left -= 1;
        await stage.worker({ kinds: ['noop'], profile: 'latency' });
        return true;
      });
      // By then every process has done what it does once, and pages had their first change after the checkpoint.
      await delay(settleSeconds * 1000);

      await servers.postgres.resetCounts();
      const stop = await stage.measure();
      await stage.guard('the wait', seconds * 2000, delay(seconds * 1000));
      const { ms, meters } = await stop();
      const counts = await servers.postgres.statementCounts(database);
      const calls = counts.reduce((sum, { calls }) => sum + calls, 0);
      const other = counts.filter(({ query }) => system.heartbeat?.test(query) === false);
      const { wal, ...shares } = meters;
      return {
        ...shares,
        statements: (1000 * calls) / ms / processes,
        wal: (1000 * wal) / ms,
        walOther: system.heartbeat ? other.reduce((sum, { walBytes }) => sum + walBytes, 0) : NaN,
      };
    },
  };
}
