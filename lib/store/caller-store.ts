import type { JobRecord } from '../contracts/job.js';
import type { LimitRecord } from '../contracts/limits.js';
import type {
  CancelOutcome,
  FailedFilter,
  PausedKind,
  PauseTarget,
  PendingFilter,
  QueueRecord,
} from '../contracts/queue.js';
import type { ScheduleRecord } from '../contracts/schedule.js';
import type { TransactionHandle } from '../contracts/transaction.js';
import type { Database } from './database.js';
import { errorCode } from './errors.js';
import { enqueueKeyed } from './statements/enqueue-keyed.js';
import { enqueueMany, type EnqueuedRow, type JobRow } from './statements/enqueue-many.js';
import { complete, type Completion } from './statements/control.js';
import {
  cancel,
  cancelMany,
  countFailed,
  countJobs,
  countPending,
  failedIds,
  lastJobId,
  pendingIds,
  retryMany,
  type RetriedRow,
} from './statements/jobs.js';
import { getJob, getJobs, stillPending, type FoundJob } from './statements/job-records.js';
import { listLimits, removeLimit, setLimit } from './statements/limits.js';
import { listPausedKinds, listQueues, pause, resize, resume } from './statements/queues.js';
import {
  createSchedule,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  runSchedule,
  updateSchedule,
  type ScheduleRow,
  type ScheduleRowChanges,
} from './statements/schedules.js';

/** What the callers of `QueueService` ask of the database, a method a statement, on the callers' connections. */
export class CallerStore {
  constructor(readonly database: Database) {}

  /** On the caller's transaction if there is one. */
  async enqueueMany(
    jobs: readonly JobRow[],
    {
      tx,
      lockTimeout,
      allOrNothing,
    }: {
      tx?: TransactionHandle | undefined;
      lockTimeout?: number | undefined;
      allOrNothing?: boolean | undefined;
    } = {},
  ): Promise<EnqueuedRow[]> {
    const hasRules = jobs.some(({ dedupeRule }) => dedupeRule !== undefined);
    const statement = hasRules ? enqueueKeyed : enqueueMany;
    if (tx) return only(await this.database.runOn(tx, statement, { jobs, allOrNothing }));
    const request = { jobs, lockTimeout, allOrNothing };
    return only(await untilNoDeadlock(() => this.database.callers.run(statement, request)));
  }

  async getJob(id: string): Promise<JobRecord | undefined> {
    return (await this.database.callers.run(getJob, id))[0];
  }

  /** Those that there are; `limit` in milliseconds. */
  getJobs(ids: readonly string[], limit?: number): Promise<FoundJob[]> {
    return this.database.callers.run(getJobs, ids, limit);
  }

  /** The pending ones of these; `limit` in milliseconds. */
  stillPending(ids: readonly string[], limit: number): Promise<string[]> {
    return this.database.callers.run(stillPending, ids, limit);
  }

  failedIds(filter: FailedFilter, after: string, limit: number): Promise<string[]> {
    return this.database.callers.run(failedIds, { filter, after, limit });
  }

  retryMany(ids: readonly string[]): Promise<RetriedRow[]> {
    return this.database.callers.run(retryMany, ids);
  }

  async countFailed(filter: FailedFilter): Promise<number> {
    return only(await this.database.callers.run(countFailed, filter));
  }

  async lastJobId(): Promise<string> {
    return only(await this.database.callers.run(lastJobId, undefined));
  }

  pendingIds(filter: PendingFilter, after: string, upto: string, limit: number): Promise<string[]> {
    return this.database.callers.run(pendingIds, { filter, after, upto, limit });
  }

  async countPending(filter: PendingFilter): Promise<number> {
    return only(await this.database.callers.run(countPending, filter));
  }

  async cancelMany(ids: readonly string[]): Promise<number> {
    return only(await this.database.callers.run(cancelMany, ids));
  }

  async cancel(id: string): Promise<CancelOutcome> {
    return only(await this.database.callers.run(cancel, id));
  }

  countJobs(): Promise<{ status: string; waitsFor: string | null; count: number }[]> {
    return this.database.callers.run(countJobs, undefined);
  }

  async setLimit(limit: LimitRecord, { declared }: { declared: boolean }): Promise<void> {
    await this.database.callers.run(setLimit, { limit, declared });
  }

  async removeLimit(name: string): Promise<boolean> {
    return (await this.database.callers.run(removeLimit, name)).length > 0;
  }

  listLimits(): Promise<LimitRecord[]> {
    return this.database.callers.run(listLimits, undefined);
  }

  /** On the transaction that the attempt's writes are in. */
  async complete(
    completion: Completion,
    tx: TransactionHandle,
  ): Promise<'done' | 'cancelled' | 'lost'> {
    return only(await this.database.runOn(tx, complete, completion));
  }

  async pause(target: PauseTarget): Promise<void> {
    await this.database.callers.run(pause, target);
  }

  async resume(target: PauseTarget): Promise<void> {
    await this.database.callers.run(resume, target);
  }

  async resize(queue: string, concurrency: number | null): Promise<void> {
    await this.database.callers.run(resize, { queue, concurrency });
  }

  listQueues(): Promise<QueueRecord[]> {
    return this.database.callers.run(listQueues, undefined);
  }

  listPausedKinds(): Promise<PausedKind[]> {
    return this.database.callers.run(listPausedKinds, undefined);
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

export function only<Row>(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new TypeError('The database answered no row');
  return row;
}
