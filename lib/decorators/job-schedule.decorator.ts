import type { JobScheduleOptions, ScheduleTimes } from '../contracts/schedule.js';
import { declaredMethod } from './declared-method.js';
import { addSchedule } from './metadata.js';

/**
 * Makes a job of the method's kind at each time of the schedule: one a slot, however many processes declare
 * it. Put it on a method that has `@JobHandler`, several times for several schedules.
 *
 * The schedule is what the newest live worker declares: it stops when no live worker declares it any more,
 * and follows the newer code while an older process still runs.
 *
 * @param times a cron pattern, or `{ every: '5m' }`.
 * @throws PgQueueError `INVALID_HANDLER` on anything but a method of an instance that is named by a string;
 * while the application starts, `INVALID_SCHEDULE` for what is wrong with its times and options.
 */
export function JobSchedule(
  times: string | ScheduleTimes,
  options: JobScheduleOptions = {},
): MethodDecorator {
  return (target, method, descriptor) => {
    const declared = declaredMethod('@JobSchedule', target, method, descriptor);
    addSchedule(target, declared.name, declared.function, {
      times: typeof times === 'string' ? { cron: times } : times,
      options,
    });
  };
}
