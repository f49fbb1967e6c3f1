import type { CatchUp, ScheduleRecord } from '../../contracts/schedule.js';
import { epochMs, instant, json, number, statement, text, type TextRow } from '../statement.js';

/** A schedule as the database takes it: checked, with everything already text, number or null. */
export interface ScheduleRow {
  readonly name: string;
  readonly kind: string;
  readonly queue: string;
  /** JSON text. */
  readonly payload: string;
  readonly priority: number | null;
  readonly maxAttempts: number | null;
  readonly cron: string | null;
  readonly everyMs: number | null;
  readonly timeZone: string;
  /** ISO 8601 with an offset. */
  readonly startsAt: string | null;
  readonly endsAt: string | null;
  readonly catchUp: CatchUp;
}

/** What an update changes: a missing member stays. */
export type ScheduleRowChanges = Partial<Omit<ScheduleRow, 'name' | 'kind'>>;

/** A schedule that is due. Instants in milliseconds. */
export interface DueSchedule {
  readonly name: string;
  readonly turn: number;
  readonly kind: string;
  readonly queue: string;
  readonly cron: string | null;
  readonly every: number | null;
  readonly timeZone: string;
  readonly start: number | null;
  readonly end: number | null;
  readonly catchUp: CatchUp;
  readonly handledTo: number;
  /** Whether a live worker handles its kind. */
  readonly isHandled: boolean;
}

export interface DueSchedules {
  /** When they are due, the database's time if they are now; in milliseconds. */
  readonly dueAt: number;
  /** Milliseconds until then. */
  readonly dueIn: number;
  readonly due: readonly DueSchedule[];
}

/** What to do with a schedule, see migrations/0007-schedules. Instants in milliseconds. */
export interface FirePlan {
  readonly name: string;
  readonly turn: number;
  readonly slots: readonly number[];
  readonly handledTo: number | null;
  /** null = never. */
  readonly next: number | null;
  /** Milliseconds, in place of `next`: something is wrong with it. */
  readonly again?: number;
  readonly problem?: string;
}

export interface FiredRow {
  readonly name: string;
  /** `planned`, `passed`, `busy`, `early`, or `refused: …` with what the database said. */
  readonly outcome: string;
  /** Jobs that were made. */
  readonly fired: number;
}

/** Answers names that schedules made by hand have. `age` in milliseconds: since the process said so first. */
export const declareSchedules = statement<
  { worker: string; age: number; schedules: readonly ScheduleRow[] },
  string
>({
  text: 'select name from pgqueue.declare_schedules_v1($1::uuid, $2::float8, $3::jsonb)',
  values: ({ worker, age, schedules }) => [worker, age, `[${schedules.map(rowJson).join()}]`],
  row: (row) => text(row, 'name'),
});

/** undefined if there are none. */
export const dueSchedules = statement<number, DueSchedules | undefined>({
  text: 'select due_ms, due_in, due from pgqueue.due_schedules_v1($1::int)',
  values: (limit) => [limit],
  row: (row) =>
    row.due_in === null
      ? undefined
      : {
          dueAt: Math.floor(number(row, 'due_ms')),
          dueIn: number(row, 'due_in'),
          due: (json(row, 'due') as DueRow[]).map(dueSchedule),
        },
});

export const fireSchedules = statement<readonly FirePlan[], FiredRow>({
  text: 'select name, outcome, fired from pgqueue.fire_schedules_v1($1::jsonb)',
  values: (plans) => [
    JSON.stringify(
      plans.map(({ name, turn, slots, handledTo, next, again, problem }) => ({
        name,
        turn,
        slots,
        handled_to: handledTo,
        next_at: next,
        again_ms: again,
        problem,
      })),
    ),
  ],
  row: (row) => ({
    name: text(row, 'name'),
    outcome: text(row, 'outcome'),
    fired: number(row, 'fired'),
  }),
});

/** Answers no row if there is one of that name. */
export const createSchedule = statement<ScheduleRow, string>({
  text: /* sql */ `
    insert into pgqueue.schedules (name, kind, queue, payload, priority, max_attempts, cron, every_ms,
                                   time_zone, starts_at, ends_at, catch_up)
    select n.name, n.kind, n.queue, n.payload, coalesce(n.priority, 0), coalesce(n.max_attempts, 5), n.cron,
           n.every_ms, n.time_zone, n.starts_at, n.ends_at, n.catch_up
      from jsonb_to_record($1::jsonb) as n(
             name text, kind text, queue text, payload jsonb, priority smallint, max_attempts int, cron text,
             every_ms bigint, time_zone text, starts_at timestamptz, ends_at timestamptz, catch_up text)
    on conflict (name) do nothing
    returning name`,
  values: (row) => [rowJson(row)],
  row: (row) => text(row, 'name'),
});

/** Answers whether it is declared, and then nothing changed; no row if there is none. */
export const updateSchedule = statement<
  { name: string; changes: ScheduleRowChanges },
  { isDeclared: boolean }
>({
  text: /* sql */ `
    with changed as (
      update pgqueue.schedules s
         set (queue, priority, max_attempts, cron, every_ms, time_zone, starts_at, ends_at, catch_up) =
             (select n.queue, n.priority, n.max_attempts, n.cron, n.every_ms, n.time_zone, n.starts_at,
                     n.ends_at, n.catch_up
                from pg_catalog.jsonb_populate_record(s, $2::jsonb) as n),
             payload = coalesce($3::jsonb, s.payload)
       where name = $1 and not declared)
    select declared from pgqueue.schedules where name = $1`,
  values: ({ name, changes: { payload, ...columns } }) => [
    name,
    JSON.stringify(columnsOf(columns)),
    payload ?? null,
  ],
  row: (row) => ({ isDeclared: row.declared === 't' }),
});

/** Answers its name; no row if there is none. */
export const pauseSchedule = statement<{ name: string; isPaused: boolean }, string>({
  text: /* sql */ `
    update pgqueue.schedules
       set paused_at = case when $2::boolean then coalesce(paused_at, clock_timestamp()) end
     where name = $1
    returning name`,
  values: ({ name, isPaused }) => [name, isPaused],
  row: (row) => text(row, 'name'),
});

/** Answers whether it is gone; one that a live worker declares stays. No row if there was none. */
export const removeSchedule = statement<string, { isRemoved: boolean }>({
  text: /* sql */ `
    with gone as (
      delete from pgqueue.schedules s
       where s.name = $1
         and not (s.declared and exists (select from pgqueue.schedules_in_code c where c.name = $1))
      returning 1)
    select exists (select from gone) as removed from pgqueue.schedules where name = $1`,
  values: (name) => [name],
  row: (row) => ({ isRemoved: row.removed === 't' }),
});

/** The id of the job; null if there is no such schedule. */
export const runSchedule = statement<string, string | null>({
  text: 'select pgqueue.run_schedule($1) as id',
  values: (name) => [name],
  row: (row) => row.id ?? null,
});

export const listSchedules = statement<void, ScheduleRecord>({
  text: /* sql */ `
    select name, kind, queue, payload, priority, max_attempts, cron, every_ms, time_zone,
           ${epochMs('starts_at')} as starts_at, ${epochMs('ends_at')} as ends_at, catch_up, declared,
           case when paused_at is not null then 'paused'
                when declared and not exists (select from pgqueue.schedules_in_code c where c.name = s.name)
                  then 'stopped'
                when next_at = 'infinity' then 'ended'
                else 'active' end as status,
           case when problem is null and isfinite(next_at) then ${epochMs('next_at')} end as next_slot,
           ${epochMs('last_slot')} as last_slot, problem, ${epochMs('created_at')} as created_at
      from pgqueue.schedules s order by name`,
  values: () => [],
  row: (row) => {
    const status = text(row, 'status') as ScheduleRecord['status'];
    return {
      name: text(row, 'name'),
      kind: text(row, 'kind'),
      queue: text(row, 'queue'),
      payload: json(row, 'payload'),
      priority: number(row, 'priority'),
      maxAttempts: number(row, 'max_attempts'),
      cron: row.cron ?? null,
      every: numberOrNull(row, 'every_ms'),
      timeZone: text(row, 'time_zone'),
      start: instant(row, 'starts_at'),
      end: instant(row, 'ends_at'),
      catchUp: text(row, 'catch_up') as CatchUp,
      isDeclared: row.declared === 't',
      status,
      nextSlot: status === 'active' ? instant(row, 'next_slot') : null,
      lastSlot: instant(row, 'last_slot'),
      problem: row.problem ?? null,
      createdAt: instant(row, 'created_at') as Date,
    };
  },
});

function numberOrNull(row: TextRow, column: string): number | null {
  return row[column] === null ? null : number(row, column);
}

/** A row as JSON; its payload is JSON text already. */
function rowJson({ payload, ...row }: ScheduleRow): string {
  return `${JSON.stringify(columnsOf(row)).slice(0, -1)},"payload":${payload}}`;
}

function columnsOf({
  maxAttempts,
  everyMs,
  timeZone,
  startsAt,
  endsAt,
  catchUp,
  ...same
}: Omit<ScheduleRowChanges, 'payload'>): object {
  return {
    ...same,
    max_attempts: maxAttempts,
    every_ms: everyMs,
    time_zone: timeZone,
    starts_at: startsAt,
    ends_at: endsAt,
    catch_up: catchUp,
  };
}

/** As the database writes it. A number that JSON can't hold, such as that of `infinity`, comes as text. */
interface DueRow {
  readonly name: string;
  readonly turn: number;
  readonly kind: string;
  readonly queue: string;
  readonly cron: string | null;
  readonly every_ms: number | null;
  readonly time_zone: string;
  readonly catch_up: CatchUp;
  readonly starts_ms: number | string | null;
  readonly ends_ms: number | string | null;
  readonly handled_ms: number | string;
  readonly handled: boolean;
}

function dueSchedule(row: DueRow): DueSchedule {
  return {
    name: row.name,
    turn: row.turn,
    kind: row.kind,
    queue: row.queue,
    cron: row.cron,
    every: row.every_ms,
    timeZone: row.time_zone,
    start: row.starts_ms === null ? null : Math.ceil(Number(row.starts_ms)),
    end: row.ends_ms === null ? null : Math.floor(Number(row.ends_ms)),
    catchUp: row.catch_up,
    handledTo: Math.floor(Number(row.handled_ms)),
    isHandled: row.handled,
  };
}
