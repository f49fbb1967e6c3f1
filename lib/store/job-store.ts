import type { JobRecord } from '../contracts/job.js';
import type { CancelOutcome, FailedFilter } from '../contracts/queue.js';
import type { ScheduleRecord } from '../contracts/schedule.js';
import type { TransactionHandle } from '../contracts/transaction.js';
import type { Database } from './database.js';
import { errorCode } from './errors.js';
import { dropOldDays, makeDaysAhead } from './history-days.js';
import { enqueueMany, type EnqueuedRow, type JobRow } from './statements/enqueue-many.js';
import { exchange, type ExchangeRequest, type ExchangeRow } from './statements/exchange.js';
import {
  cancel,
  countJobs,
  failedIds,
  getJob,
  retryMany,
  type RetriedRow,
} from './statements/jobs.js';
import { deleteFailed, deleteOverflow, takeTask, type Task } from './statements/maintenance.js';
import {
  createSchedule,
  declareSchedules,
  dueSchedules,
  fireSchedules,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  runSchedule,
  updateSchedule,
  type DueSchedules,
  type FiredRow,
  type FirePlan,
  type ScheduleRow,
  type ScheduleRowChanges,
} from './statements/schedules.js';
import {
  declareDead,
  heartbeat,
  listOverdue,
  reconcile,
  register,
  rescue,
  retire,
  sortByHandler,
  type RescuedRow,
  type SortedRow,
  type WorkerRow,
} from './statements/workers.js';

/** What the queue asks of the database, a method a statement. The engine's run on its own connections. */
export class JobStore {
  constructor(readonly database: Database) {}

  // --- for QueueService: on the callers' connections

  /** On the caller's transaction if there is one. */
  async enqueueMany(
    jobs: readonly JobRow[],
    {
      tx,
      lockTimeout,
    }: { tx?: TransactionHandle | undefined; lockTimeout?: number | undefined } = {},
  ): Promise<EnqueuedRow[]> {
    if (tx) return only(await this.database.runOn(tx, enqueueMany, { jobs }));
    const request = { jobs, lockTimeout };
    return only(await untilNoDeadlock(() => this.database.callers.run(enqueueMany, request)));
  }

  async getJob(id: string): Promise<JobRecord | undefined> {
    return (await this.database.callers.run(getJob, id))[0];
  }

  failedIds(filter: FailedFilter, after: string, limit: number): Promise<string[]> {
    return this.database.callers.run(failedIds, { filter, after, limit });
  }

  retryMany(ids: readonly string[]): Promise<RetriedRow[]> {
    return this.database.callers.run(retryMany, ids);
  }

  async cancel(id: string): Promise<CancelOutcome> {
    return only(await this.database.callers.run(cancel, id));
  }

  countJobs(): Promise<{ status: string; waitsFor: string | null; count: number }[]> {
    return this.database.callers.run(countJobs, undefined);
  }

  /** Whether it was made: the name may be taken. */
  async createSchedule(schedule: ScheduleRow): Promise<boolean> {
    return (await this.database.callers.run(createSchedule, schedule)).length > 0;
  }

  /** undefined if there is none. */
  async updateSchedule(
    name: string,
    changes: ScheduleRowChanges,
  ): Promise<{ isDeclared: boolean } | undefined> {
    return (await this.database.callers.run(updateSchedule, { name, changes }))[0];
  }

  /** Whether there is one. */
  async pauseSchedule(name: string, isPaused: boolean): Promise<boolean> {
    return (await this.database.callers.run(pauseSchedule, { name, isPaused })).length > 0;
  }

  /** undefined if there was none. */
  async removeSchedule(name: string): Promise<{ isRemoved: boolean } | undefined> {
    return (await this.database.callers.run(removeSchedule, name))[0];
  }

  async runSchedule(name: string): Promise<string | null> {
    return only(await this.database.callers.run(runSchedule, name));
  }

  listSchedules(): Promise<ScheduleRecord[]> {
    return this.database.callers.run(listSchedules, undefined);
  }

  // --- for the worker: on the engine's connections; `limit` in milliseconds

  exchange(request: ExchangeRequest, limit: number): Promise<ExchangeRow[]> {
    return this.database.engine.run(exchange, request, limit);
  }

  async register(worker: WorkerRow, limit: number): Promise<void> {
    await this.database.engine.run(register, worker, limit);
  }

  async heartbeat(
    worker: string,
    lease: number,
    limit: number,
  ): Promise<{ alive: boolean; overdue: string[] }> {
    return only(await this.database.engine.run(heartbeat, { worker, lease }, limit));
  }

  listOverdue(): Promise<string[]> {
    return this.database.engine.run(listOverdue, undefined);
  }

  /** The worker's name if it is dead now by this call. */
  async declareDead(worker: string): Promise<string | null> {
    return (await this.database.engine.run(declareDead, worker))[0] ?? null;
  }

  rescue(strays: boolean, limit: number): Promise<RescuedRow[]> {
    return this.database.engine.run(rescue, { strays, limit });
  }

  async reconcile(
    worker: string,
    known: readonly string[],
    limit: number,
  ): Promise<{ epoch: number | undefined; released: number; remaining: number }> {
    return only(await this.database.engine.run(reconcile, { worker, known }, limit));
  }

  async retire(worker: string, unsettled: readonly string[], limit: number): Promise<void> {
    await this.database.engine.run(retire, { worker, unsettled }, limit);
  }

  sortByHandler(limit: number): Promise<SortedRow[]> {
    return this.database.engine.run(sortByHandler, limit);
  }

  /** Answers the names of those that were made by hand, and so are not declared. */
  declareSchedules(
    worker: string,
    age: number,
    schedules: readonly ScheduleRow[],
  ): Promise<string[]> {
    return this.database.engine.run(declareSchedules, { worker, age, schedules });
  }

  async dueSchedules(limit: number): Promise<DueSchedules | undefined> {
    return (await this.database.engine.run(dueSchedules, limit))[0];
  }

  fireSchedules(plans: readonly FirePlan[]): Promise<FiredRow[]> {
    return this.database.engine.run(fireSchedules, plans);
  }

  /** Whether this process is the one that does the task now. */
  async takeTask(task: Task, interval: number): Promise<boolean> {
    return (await this.database.engine.run(takeTask, { task, interval })).length > 0;
  }

  async deleteFailed(olderThan: number, limit: number): Promise<number> {
    return only(await this.database.engine.run(deleteFailed, { olderThan, limit }));
  }

  async deleteOverflow(olderThan: number, limit: number): Promise<number> {
    return only(await this.database.engine.run(deleteOverflow, { olderThan, limit }));
  }

  makeDaysAhead(): Promise<void> {
    return makeDaysAhead(this.database);
  }

  dropOldDays(keep: number): Promise<void> {
    return dropOldDays(this.database, keep);
  }
}

/** 40P01: two lists of keys crossed each other. Nothing of this one was stored, so it is sent again. */
async function untilNoDeadlock<T>(send: () => Promise<T>): Promise<T> {
  for (let again = 5; ; again -= 1) {
    try {
      return await send();
    } catch (error) {
      if (errorCode(error) !== '40P01' || again === 0) throw error;
    }
  }
}

function only<Row>(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new TypeError('The database answered no row');
  return row;
}
