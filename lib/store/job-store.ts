import { dropOldDays, makeDaysAhead } from './history-days.js';
import {
  cancelRequests,
  deleteProgress,
  expire,
  writeProgress,
  type AttemptKey,
  type ProgressValue,
} from './statements/control.js';
import { exchange, type ExchangeRequest, type ExchangeRow } from './statements/exchange.js';
import { sweepSlots } from './statements/limits.js';
import {
  deleteDedupeWindows,
  deleteFailed,
  deleteOverflow,
  takeTask,
  type Task,
} from './statements/maintenance.js';
import { queueSettings, type QueueSettings } from './statements/queues.js';
import {
  declareSchedules,
  dueSchedules,
  fireSchedules,
  type DueSchedules,
  type FiredRow,
  type FirePlan,
  type ScheduleRow,
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

import { CallerStore, only } from './caller-store.js';

/**
 * What the queue asks of the database, a method a statement. The engine's run on its own connections; `limit` in
 * milliseconds.
 */
export class JobStore extends CallerStore {
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
