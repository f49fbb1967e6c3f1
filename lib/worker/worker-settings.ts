import { hostname } from 'node:os';
import type { HandlerTable } from '../contracts/handler.js';
import type { ResolvedWorkerOptions } from '../contracts/options.js';
import { DEFAULTS } from '../contracts/resolve-options.js';
import type { ScheduleRow } from '../store/statements/schedules.js';
import type { WorkerRow } from '../store/statements/workers.js';
import type { Retention } from './housekeeping/tasks.js';

export interface WorkerSettings extends ResolvedWorkerOptions, Retention {
  readonly listen: boolean;
  /** Of this package, shown in `workers.version`. */
  readonly version: string;
  /** What this application's code declares; undefined = this worker fires no schedules. */
  readonly schedules?: readonly ScheduleRow[];
  /** Claims no more than this many jobs in all; undefined = no bound. */
  readonly budget?: number;
}

/** The default queue and those that handlers name, with as many slots each. */
export function defaultQueues(handlers: HandlerTable, concurrency: number): Map<string, number> {
  const names = [DEFAULTS.queue, ...[...handlers.values()].map(({ queue }) => queue)];
  return new Map(names.map((name) => [name, concurrency]));
}

/** What a worker says of itself. */
export function workerRow(
  { name, version, lease }: WorkerSettings,
  queues: readonly string[],
  handlers: HandlerTable,
): Omit<WorkerRow, 'id'> {
  const kinds = [...handlers.keys()];
  return { name, host: hostname(), pid: process.pid, version, queues, kinds, lease };
}
