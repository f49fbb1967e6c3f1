import { Calendar } from './calendar.js';
import { changeIn, instantOf, isZone, offsetAt } from './zones.js';

/** The instants at which a schedule is due, in milliseconds since 1970; the same in every process. */
export interface Slots {
  /** The first slot after this instant; undefined if there is none. */
  next(after: number): number | undefined;
}

/** What decides the slots of a schedule. One of `cron` and `every` is given; instants in milliseconds. */
export interface SlotRule {
  readonly cron: string | null;
  /** Milliseconds. */
  readonly every: number | null;
  readonly timeZone: string;
  /** No slot before it, and where `every` counts from; null = 1970. */
  readonly start: number | null;
  /** No slot after it; null = it goes on for ever. */
  readonly end: number | null;
}

const DAY_MS = 86_400_000;
const END_OF_TIME = Date.UTC(9999, 11, 31);

/** @throws with a reason, if the rule makes no sense */
export function slotsOf({ cron, every, timeZone, start, end }: SlotRule): Slots {
  const slots = cron === null ? everySlots(every ?? 0, start ?? 0) : cronSlots(cron, timeZone);
  return {
    next(after) {
      const slot = slots.next(start === null ? after : Math.max(after, start - 1));
      return slot === undefined || slot > Math.min(end ?? Infinity, END_OF_TIME) ? undefined : slot;
    },
  };
}

/** Steps of real time from an anchor, whatever clocks do. */
export function everySlots(every: number, anchor: number): Slots {
  if (!(every >= 1)) throw new Error(`\`every\` is ${every} ms`);
  return {
    next: (after) => anchor + Math.max(0, Math.floor((after - anchor) / every) + 1) * every,
  };
}

/**
 * A pattern that can match in every hour means steps: its slots are all instants at which clocks in the zone
 * show a time that matches, so that every 15 minutes are 15 minutes in every night. Any other pattern names
 * times of day: each stands for one instant (see {@link instantOf}), so that it neither fails nor doubles.
 */
export function cronSlots(pattern: string, zone: string): Slots {
  if (!isZone(zone)) throw new Error(`the time zone '${String(zone)}' is not known`);
  const calendar = new Calendar(pattern);
  return {
    next: (after) =>
      calendar.isHourly ? nextStep(calendar, zone, after) : nextTime(calendar, zone, after),
  };
}

/** Walks through stretches of one offset, a day at most at a time: clocks don't change twice in a day. */
function nextStep(calendar: Calendar, zone: string, after: number): number | undefined {
  let offset = offsetAt(zone, after);
  for (let from = after; ;) {
    const wall = calendar.next(from + offset);
    if (wall === undefined) return undefined;
    const slot = wall - offset;
    const until = Math.min(slot, from + DAY_MS);
    if (offsetAt(zone, until) === offset) {
      if (until === slot) return slot;
      from = until;
      continue;
    }
    const change = changeIn(zone, from, until);
    if (slot < change) return slot;
    offset = offsetAt(zone, change);
    from = change - 1;
  }
}

/** Later wall times never stand for earlier instants, so the first one that is late enough is the next. */
function nextTime(calendar: Calendar, zone: string, after: number): number | undefined {
  let wall: number | undefined = lastWallUntil(zone, after);
  for (;;) {
    wall = calendar.next(wall);
    if (wall === undefined) return undefined;
    const slot = instantOf(zone, wall);
    if (slot > after) return slot;
  }
}

/** A wall time such that those up to it stand for instants until `after`, and the later ones for later instants. */
function lastWallUntil(zone: string, after: number): number {
  const second = Math.floor(after / 1_000) * 1_000;
  const wall = second + offsetAt(zone, second);
  const first = instantOf(zone, wall);
  if (first === second) return wall;
  // The second time that clocks show this: all that they show twice has been.
  const change = changeIn(zone, first, second);
  return change + offsetAt(zone, first) - 1;
}

/** The last slot that is after `after` and not after `until`; undefined if there is none. */
export function lastSlot(slots: Slots, after: number, until: number): number | undefined {
  let low = slots.next(after);
  if (low === undefined || low > until) return undefined;
  // From here on: `low` is a slot, and there is none from `high` to `until`. Halving finds the last of a
  // year of seconds in 60 looks; from the end in growing steps, since it is near, as a rule.
  let high = until + 1;
  for (let step = 1_000; high - low > 1; step *= 2) {
    const middle: number = Math.max(Math.floor((low + high) / 2), high - step);
    const slot = slots.next(middle - 1);
    if (slot !== undefined && slot <= until) low = slot;
    else high = middle;
  }
  return low;
}
