import { PgQueueError } from '../contracts/errors.js';
import type { JobKind } from '../contracts/job.js';
import type { NewSchedule, ScheduleChanges, ScheduleRecord } from '../contracts/schedule.js';
import type { JobStore } from '../store/job-store.js';
import type { KindDefaults } from './job-draft.js';
import { draftChanges, draftSchedule, scheduleName } from './schedule-draft.js';

/** What the schedules need of the application around them. */
export interface QueueSchedulesPorts {
  readonly store: JobStore;
  readonly defaultsOf: (kind: string) => KindDefaults | undefined;
  /** The worker of this process should look at once; others are told by the database. */
  readonly changed: () => void;
}

/**
 * Schedules at run time: `queue.schedules`. Any process may manage them; workers fire them. Each method
 * throws `INVALID_SCHEDULE` for bad input, before any SQL.
 */
export class QueueSchedules {
  /** @internal */
  constructor(private readonly ports: QueueSchedulesPorts) {}

  /**
   * Adds a schedule, which begins with its first slot after now and stays until it is removed.
   * @throws PgQueueError `SCHEDULE_EXISTS` if there is one of that name, declared or not
   */
  async create<K extends JobKind>(schedule: NewSchedule<K>): Promise<void> {
    const row = draftSchedule(schedule, this.ports.defaultsOf);
    if (!(await this.ports.store.createSchedule(row))) {
      throw new PgQueueError(
        'SCHEDULE_EXISTS',
        `There is a schedule '${row.name}' already. Update or remove it, or give this one another name.`,
      );
    }
    this.ports.changed();
  }

  /**
   * Changes what is given and leaves the rest. New times count from now on: slots before that are not made up
   * for.
   * @throws PgQueueError `SCHEDULE_NOT_FOUND`; `SCHEDULE_DECLARED` for one of `@JobSchedule`, which only code
   *   can change
   */
  async update(name: string, changes: ScheduleChanges): Promise<void> {
    const row = draftChanges(changes);
    const found = await this.ports.store.updateSchedule(scheduleName(name), row);
    if (!found) throw notFound(name);
    if (found.isDeclared) throw declared(name, 'Change it there, or pause it');
    this.ports.changed();
  }

  /** No slot fires until {@link resume}, over restarts and deploys too. @throws `SCHEDULE_NOT_FOUND` */
  async pause(name: string): Promise<void> {
    await this.setPaused(name, true);
  }

  /** Goes on with the first slot after now. @throws `SCHEDULE_NOT_FOUND` */
  async resume(name: string): Promise<void> {
    await this.setPaused(name, false);
  }

  /**
   * Answers whether there was one. Jobs that it has made stay.
   * @throws PgQueueError `SCHEDULE_DECLARED` if a live worker declares it
   */
  async remove(name: string): Promise<boolean> {
    const found = await this.ports.store.removeSchedule(scheduleName(name));
    if (found && !found.isRemoved) throw declared(name, 'Take it out there, or pause it');
    return found !== undefined;
  }

  /** All schedules, by name. */
  async list(): Promise<ScheduleRecord[]> {
    return this.ports.store.listSchedules();
  }

  /** Makes a job of the schedule now, beside its slots, paused or not. @throws `SCHEDULE_NOT_FOUND` */
  async runNow(name: string): Promise<{ id: string }> {
    const id = await this.ports.store.runSchedule(scheduleName(name));
    if (id === null) throw notFound(name);
    return { id };
  }

  private async setPaused(name: string, isPaused: boolean): Promise<void> {
    if (!(await this.ports.store.pauseSchedule(scheduleName(name), isPaused))) throw notFound(name);
    this.ports.changed();
  }
}

function notFound(name: string): PgQueueError {
  return new PgQueueError(
    'SCHEDULE_NOT_FOUND',
    `There is no schedule '${name}'. \`schedules.list()\` answers those that there are.`,
  );
}

function declared(name: string, advice: string): PgQueueError {
  return new PgQueueError(
    'SCHEDULE_DECLARED',
    `The schedule '${name}' is declared by @JobSchedule, and code would put it back. ${advice}.`,
  );
}
