import { Cron } from 'croner';
import type { WallTime } from './zones.js';

/**
 * A cron pattern over wall times, without any zone: croner reads the pattern and counts days, and zones are
 * none of its business, so that one rule about them holds (see slots.ts).
 */
export class Calendar {
  /** Whether it can match in every hour of a day: then it means steps, and not times of day. */
  readonly isHourly: boolean;
  private readonly cron: Cron;

  /** @throws with a reason, if it is no pattern of five or six fields and no `@daily` or the like */
  constructor(pattern: string) {
    const fields = pattern.trim().replaceAll('?', '*').split(/\s+/);
    const isNickname = fields.length === 1 && /^@\w+$/.test(pattern.trim());
    if (!isNickname && fields.length !== 5 && fields.length !== 6) {
      throw new Error(`it has ${fields.length} fields in place of five, or six with seconds`);
    }
    this.cron = wallClock(fields.join(' '));
    this.isHourly = isNickname
      ? /^@hourly$/i.test(pattern.trim())
      : coversTheDay(fields.at(-4) ?? '');
    if (this.next(Date.UTC(2000, 0)) === undefined) throw new Error('no date ever matches it');
  }

  /** The first wall time after this one that matches, in whole seconds; undefined if there is none. */
  next(wall: WallTime): WallTime | undefined {
    try {
      return this.cron.nextRun(new Date(wall))?.getTime();
    } catch (error) {
      // Its search for a date that never comes ends with the stack.
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }
}

function wallClock(pattern: string): Cron {
  return new Cron(pattern, { utcOffset: 0, paused: true });
}

function coversTheDay(hours: string): boolean {
  const lastHour = wallClock(`0 ${hours} * * *`)
    .nextRuns(24, new Date(Date.UTC(1999, 11, 31, 23, 59)))
    .at(-1);
  return lastHour?.getTime() === Date.UTC(2000, 0, 1, 23);
}
