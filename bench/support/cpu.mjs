// @ts-check
// Who used the processor, from /proc. Elsewhere than on Linux everything here is NaN, which the tables show as
// a dash.
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** A tick of /proc is 10 ms on every Linux that Node runs on. */
const TICK_MS = 10;

/** @typedef {{ ppid: number, ms: number, reaped: number }} Process times in ms; `reaped`: of children that have ended */

/**
 * @param {number} pid
 * @returns {Process | undefined} undefined = it has ended, or there is no /proc
 */
function readProcess(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name may hold spaces and brackets; the numbers begin behind the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const at = (/** @type {number} */ index) => Number(fields[index]);
    return {
      ppid: at(1),
      ms: (at(11) + at(12)) * TICK_MS,
      reaped: (at(13) + at(14)) * TICK_MS,
    };
  } catch {
    return undefined;
  }
}

/**
 * Milliseconds that a process has used so far, with its threads.
 * @param {number} pid
 */
export function processTime(pid) {
  return readProcess(pid)?.ms ?? NaN;
}

/**
 * Milliseconds that a server has used so far, with all its children, those that have ended too.
 * @param {number} pid
 */
export function serverTime(pid) {
  const server = readProcess(pid);
  if (!server) return NaN;
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  const children = pids.map(readProcess).filter((process) => process?.ppid === pid);
  return children.reduce((sum, child) => sum + (child?.ms ?? 0), server.ms + server.reaped);
}

/** The parent of a process: from a backend to its postmaster. @param {number} pid */
export function parentOf(pid) {
  return readProcess(pid)?.ppid;
}

/** Milliseconds that all processors have been busy so far, whoever used them; NaN without /proc. */
export function machineTime() {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'latin1').split('\n', 1);
    const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line
      .trim()
      .split(/\s+/)
      .slice(1)
      .map(Number);
    return (user + nice + system + irq + softirq + steal) * TICK_MS;
  } catch {
    return NaN;
  }
}

/**
 * One look at everybody.
 * @param {{ server: number | undefined, nodes: number[], stagehands: number[] }} pids `stagehands`: the benchmark's own
 */
export function sampleTimes({ server, nodes, stagehands }) {
  const total = (/** @type {number[]} */ pids) =>
    pids.reduce((sum, pid) => sum + processTime(pid), 0);
  return {
    at: performance.now(),
    server: server === undefined ? NaN : serverTime(server),
    nodes: total(nodes),
    stagehands: total(stagehands),
    machine: machineTime(),
  };
}

/**
 * Shares in percent of one processor, except `othersCpu`, which is of the whole machine.
 * @param {ReturnType<typeof sampleTimes>} before
 * @param {ReturnType<typeof sampleTimes>} after
 */
export function compareTimes(before, after) {
  const elapsed = after.at - before.at;
  const percent = (/** @type {number} */ ms) => (100 * ms) / elapsed;
  const server = after.server - before.server;
  const nodes = after.nodes - before.nodes;
  const ours = nodes + (after.stagehands - before.stagehands) + (Number.isNaN(server) ? 0 : server);
  return {
    serverCpu: percent(server),
    nodeCpu: percent(nodes),
    othersCpu: Math.max(0, percent(after.machine - before.machine - ours) / availableParallelism()),
  };
}
