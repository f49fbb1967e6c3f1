import type { Duration } from './duration.js';
import type { JobKind, PayloadOf } from './job.js';

/**
 * What becomes of slots that nobody fired, since no worker lived: `skip` leaves them out, `latest` fires the
 * last of them once, `all` fires each, but no more than the last 100.
 */
export type CatchUp = 'skip' | 'latest' | 'all';

/** When a schedule is due: one of `cron` and `every`. */
export interface ScheduleTimes {
  /**
   * Five fields (minute, hour, day of month, month, day of week), or six with seconds before them; also
   * `@daily` and the like. `L`, `W` and `#` as in croner.
   */
  readonly cron?: string | undefined;
  /** A step of real time of at least a second, counted from `start`, else from 1970. */
  readonly every?: Duration | undefined;
}

/** What can be said of a schedule besides its name, kind and times. */
export interface ScheduleOptions<K extends JobKind = JobKind> {
  /** The IANA zone whose clocks `cron` is about, such as `'Europe/Madrid'`. Default `'UTC'`. */
  readonly timeZone?: string | undefined;
  /** Of every job. Default `{}`. */
  readonly payload?: PayloadOf<K> | undefined;
  /** No slot before it: a Date, or ISO 8601 text with `Z` or an offset. */
  readonly start?: Date | string | undefined;
  /** No slot after it. */
  readonly end?: Date | string | undefined;
  /** What becomes of missed slots. Default `'latest'`. */
  readonly catchUp?: CatchUp | undefined;
  /** Default: the queue of the kind's handler in this application, else `'default'`. */
  readonly queue?: string | undefined;
  /** -32768 to 32767, smaller runs first. Default 0. */
  readonly priority?: number | undefined;
  /** Default: as the kind's handler in this application says, else 5. */
  readonly maxAttempts?: number | undefined;
}

/** Options of `@JobSchedule`. */
export interface JobScheduleOptions extends ScheduleOptions {
  /** 1 to 255 bytes, unique in the schema: what the schedule is known by. Default: the kind. */
  readonly name?: string | undefined;
  /** Which kind, where the method handles several. */
  readonly kind?: JobKind | undefined;
}

/** What `schedules.create` makes. */
export type NewSchedule<K extends JobKind = JobKind> = ScheduleOptions<K> &
  ScheduleTimes & {
    /** 1 to 255 bytes, unique in the schema. */
    readonly name: string;
    readonly kind: K;
  };

/** What `schedules.update` changes; what is missing stays. `null` takes `start` or `end` away. */
export type ScheduleChanges = Omit<ScheduleOptions, 'start' | 'end'> &
  ScheduleTimes & {
    readonly start?: Date | string | null | undefined;
    readonly end?: Date | string | null | undefined;
  };

/** A schedule as `schedules.list` reads it. */
export interface ScheduleRecord {
  readonly name: string;
  readonly kind: string;
  readonly queue: string;
  readonly payload: unknown;
  readonly priority: number;
  readonly maxAttempts: number;
  /** null if it has `every`. */
  readonly cron: string | null;
  /** Milliseconds; null if it has `cron`. */
  readonly every: number | null;
  readonly timeZone: string;
  readonly start: Date | null;
  readonly end: Date | null;
  readonly catchUp: CatchUp;
  /** Whether `@JobSchedule` made it. */
  readonly isDeclared: boolean;
  /** `stopped`: declared, but by no live worker. `ended`: no slot is left. */
  readonly status: 'active' | 'paused' | 'stopped' | 'ended';
  /** When it is due next; null if it is not, or if no worker has looked at it yet. */
  readonly nextSlot: Date | null;
  /** The slot that was fired last; null before the first one. */
  readonly lastSlot: Date | null;
  /** Why it can't fire, such as a kind that no live worker handles; null if all is well. */
  readonly problem: string | null;
  readonly createdAt: Date;
}

/** The `meta` of a job that a schedule made. */
export interface ScheduleMeta {
  readonly schedule: {
    readonly name: string;
    /** ISO 8601 in UTC. */
    readonly slot: string;
  };
}

/** The slot that a job's `meta` names; undefined if no schedule made the job. */
export function slotOfMeta(meta: Readonly<Record<string, unknown>> | null): Date | undefined {
  const slot = (meta as Partial<ScheduleMeta> | null)?.schedule?.slot;
  if (typeof slot !== 'string') return undefined;
  const date = new Date(slot);
  return Number.isNaN(date.getTime()) ? undefined : date;
}
