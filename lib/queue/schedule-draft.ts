import { isPlainObject, isStorableName, MAX_BYTES } from '../contracts/option-checks.js';
import { parseDuration } from '../contracts/duration.js';
import { InvalidJobError, PgQueueError } from '../contracts/errors.js';
import type { DeclaredSchedule, HandlerTable } from '../contracts/handler.js';
import type {
  CatchUp,
  NewSchedule,
  ScheduleChanges,
  ScheduleOptions,
  ScheduleTimes,
} from '../contracts/schedule.js';
import { slotsOf } from '../schedules/slots.js';
import { isZone } from '../schedules/zones.js';
import type { ScheduleRow, ScheduleRowChanges } from '../store/statements/schedules.js';
import { draftJob, instant, type KindDefaults } from './job-draft.js';

const CATCH_UP: readonly CatchUp[] = ['skip', 'latest', 'all'];
const LEAST_STEP_MS = 1_000;

const OPTION_NAMES = [
  'timeZone',
  'payload',
  'start',
  'end',
  'catchUp',
  'queue',
  'priority',
  'maxAttempts',
] as const satisfies readonly (keyof ScheduleOptions)[];
const TIMES_NAMES = ['cron', 'every'] as const satisfies readonly (keyof ScheduleTimes)[];

/**
 * A schedule as the database takes it. A function of its inputs, before any SQL.
 * @throws PgQueueError `INVALID_SCHEDULE` naming what is wrong
 */
export function draftSchedule(
  schedule: NewSchedule,
  defaultsOf: (kind: string) => KindDefaults | undefined,
): ScheduleRow {
  known(schedule, ['name', 'kind', ...TIMES_NAMES, ...OPTION_NAMES]);
  const { name, kind, cron, every, payload, timeZone, start, end, catchUp, ...job } = schedule;
  const checkedName = scheduleName(name);
  const { queue, priority, maxAttempts } = job;
  const options = { queue, priority, maxAttempts };
  const row = asJob(() => draftJob(kind, payload, options, defaultsOf(kind)));
  if ((cron === undefined) === (every === undefined)) {
    throw invalid('cron', 'or `every` must be given, and not both');
  }
  return {
    name: checkedName,
    kind: row.kind,
    queue: row.queue,
    payload: row.payload,
    priority: row.priority,
    maxAttempts: row.maxAttempts,
    cron: cron === undefined ? null : checkedCron(cron),
    everyMs: every === undefined ? null : checkedEvery(every),
    timeZone: timeZone === undefined ? 'UTC' : checkedZone(timeZone),
    startsAt: checkedInstant('start', start),
    endsAt: checkedInstant('end', end),
    catchUp: catchUp === undefined ? 'latest' : checkedCatchUp(catchUp),
  };
}

/** What an update sets, checked; what is missing stays. @throws as {@link draftSchedule} */
export function draftChanges(changes: ScheduleChanges): ScheduleRowChanges {
  known(changes, [...TIMES_NAMES, ...OPTION_NAMES]);
  const { cron, every, timeZone, payload, start, end, catchUp, ...job } = changes;
  if (cron !== undefined && every !== undefined) {
    throw invalid('cron', 'and `every` must not be given together');
  }
  const { queue, priority, maxAttempts } = job;
  const row = asJob(() => draftJob('kind', payload, { queue, priority, maxAttempts }, undefined));
  return {
    ...(queue !== undefined && { queue: row.queue }),
    ...(payload !== undefined && { payload: row.payload }),
    ...(priority !== undefined && { priority: row.priority }),
    ...(maxAttempts !== undefined && { maxAttempts: row.maxAttempts }),
    ...(cron !== undefined && { cron: checkedCron(cron), everyMs: null }),
    ...(every !== undefined && { everyMs: checkedEvery(every), cron: null }),
    ...(timeZone !== undefined && { timeZone: checkedZone(timeZone) }),
    ...(start !== undefined && { startsAt: checkedInstant('start', start) }),
    ...(end !== undefined && { endsAt: checkedInstant('end', end) }),
    ...(catchUp !== undefined && { catchUp: checkedCatchUp(catchUp) }),
  };
}

/**
 * What `@JobSchedule` says in this application.
 * @throws PgQueueError `INVALID_SCHEDULE` naming the method at fault
 */
export function declaredSchedules(handlers: HandlerTable): ScheduleRow[] {
  const owners = new Map<string, string>();
  const rows: ScheduleRow[] = [];
  for (const { kind, origin, schedules = [] } of handlers.values()) {
    for (const schedule of schedules) {
      const row = explained(origin, () => draftDeclared(kind, schedule, handlers));
      const owner = owners.get(row.name);
      if (owner !== undefined) throw twice(row.name, owner, origin);
      owners.set(row.name, origin);
      rows.push(row);
    }
  }
  return rows;
}

/** @throws PgQueueError `INVALID_SCHEDULE` */
export function scheduleName(name: unknown): string {
  if (isStorableName(name, MAX_BYTES.schedule)) return name;
  throw invalid('name', `must be text of 1 to ${MAX_BYTES.schedule} bytes`);
}

function draftDeclared(
  kind: string,
  { times, options }: DeclaredSchedule,
  handlers: HandlerTable,
): ScheduleRow {
  known(times, TIMES_NAMES);
  known(options, ['name', 'kind', ...OPTION_NAMES]);
  const { name = kind, ...rest } = options;
  return draftSchedule({ ...rest, ...times, name, kind }, (k) => handlers.get(k));
}

function checkedCron(cron: unknown): string {
  if (typeof cron !== 'string') throw invalid('cron', "must be a pattern such as '0 3 * * *'");
  try {
    slotsOf({ cron, every: null, timeZone: 'UTC', start: null, end: null });
  } catch (error) {
    const reason = (error as Error).message.replace(/^Cron\w*: /, '');
    throw invalid('cron', `'${cron}' is no pattern: ${reason}. Give one such as '0 3 * * *'`);
  }
  return cron.trim();
}

function checkedEvery(every: unknown): number {
  const ms = parseDuration(every);
  if (ms !== undefined && Number.isInteger(ms) && ms >= LEAST_STEP_MS) return ms;
  throw invalid('every', "must be at least a second: milliseconds, or a string such as '5m'");
}

function checkedZone(zone: unknown): string {
  if (isZone(zone)) return zone;
  throw invalid(
    'timeZone',
    `'${String(zone)}' is not known to this runtime. Give an IANA zone such as 'Europe/Madrid'`,
  );
}

function checkedInstant(option: string, value: unknown): string | null {
  return value === undefined || value === null ? null : asJob(() => instant(value, option));
}

function checkedCatchUp(catchUp: unknown): CatchUp {
  const found = CATCH_UP.find((known) => known === catchUp);
  if (found) return found;
  throw invalid('catchUp', `must be one of ${CATCH_UP.map((one) => `'${one}'`).join(', ')}`);
}

function known(given: unknown, names: readonly string[]): void {
  if (!isPlainObject(given)) {
    throw new PgQueueError('INVALID_SCHEDULE', 'A schedule and its options must be objects.');
  }
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw invalid(unknown, `is no option of a schedule here. Known are: ${names.join(', ')}`);
  }
}

/** A schedule is checked as the jobs that it makes. */
function asJob<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof InvalidJobError)) throw error;
    throw new PgQueueError('INVALID_SCHEDULE', error.message, { cause: error });
  }
}

function invalid(option: string, problem: string): PgQueueError {
  return new PgQueueError('INVALID_SCHEDULE', `The schedule's \`${option}\` ${problem}.`);
}

function explained<T>(origin: string, draft: () => T): T {
  try {
    return draft();
  } catch (error) {
    if (!(error instanceof PgQueueError)) throw error;
    throw new PgQueueError(error.code, `@JobSchedule on ${origin}: ${error.message}`);
  }
}

function twice(name: string, first: string, second: string): PgQueueError {
  return new PgQueueError(
    'INVALID_SCHEDULE',
    `The schedule '${name}' is declared twice: on ${first} and on ${second}. Give each its own \`name\`.`,
  );
}
