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
import type { TransactionHandle } from '../contracts/transaction.js';
import type { Database } from './database.js';
import { errorCode } from './errors.js';
import { dropOldDays, makeDaysAhead } from './history-days.js';
import { enqueueKeyed } from './statements/enqueue-keyed.js';
import { enqueueMany, type EnqueuedRow, type JobRow } from './statements/enqueue-many.js';
import {
  cancelRequests,
  complete,
  deleteProgress,
  expire,
  writeProgress,
  type AttemptKey,
  type Completion,
  type ProgressValue,
} from './statements/control.js';
import { exchange, type ExchangeRequest, type ExchangeRow } from './statements/exchange.js';
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
import { listLimits, removeLimit, setLimit, sweepSlots } from './statements/limits.js';
import {
  deleteDedupeWindows,
  deleteFailed,
  deleteOverflow,
  takeTask,
  type Task,
} from './statements/maintenance.js';
import {
  listPausedKinds,
  listQueues,
  pause,
  queueSettings,
  resize,
  resume,
  type QueueSettings,
} from './statements/queues.js';
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

  async queueSettings(queues: readonly string[], limit: number): Promise<QueueSettings> {
    return only(await this.database.engine.run(queueSettings, queues, limit));
  }

  /** Whether this process is the one that does the task now. */
  async takeTask(task: Task, interval: number): Promise<boolean> {
    return (await this.database.engine.run(takeTask, { task, interval })).length > 0;
  }

  /** Gives slots that became free without a settlement to jobs that wait for one. Answers how many. */
  async sweepSlots(): Promise<number> {
    return only(await this.database.engine.run(sweepSlots, undefined));
  }

  async deleteFailed(olderThan: number, limit: number): Promise<number> {
    return only(await this.database.engine.run(deleteFailed, { olderThan, limit }));
  }

  async deleteOverflow(olderThan: number, limit: number): Promise<number> {
    return only(await this.database.engine.run(deleteOverflow, { olderThan, limit }));
  }

  /** Which of these jobs somebody asked to cancel. */
  cancelRequests(ids: readonly string[]): Promise<AttemptKey[]> {
    return this.database.engine.run(cancelRequests, ids);
  }

  async writeProgress(
    values: readonly ProgressValue[],
    ended: readonly AttemptKey[],
  ): Promise<void> {
    await this.database.engine.run(writeProgress, { values, ended });
  }

  async deleteProgress(limit: number): Promise<number> {
    return only(await this.database.engine.run(deleteProgress, limit));
  }

  /** How many deadlines were gone through. */
  async expire(limit: number): Promise<number> {
    return only(await this.database.engine.run(expire, limit));
  }

  async deleteDedupeWindows(limit: number): Promise<number> {
    return only(await this.database.engine.run(deleteDedupeWindows, limit));
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
