import type { CatchUp } from '../contracts/schedule.js';
import { lastSlot, slotsOf, type SlotRule, type Slots } from './slots.js';

/** At most this many missed slots are made up for by `all`: the latest. */
export const MOST_CAUGHT_UP = 100;
/** A slot that is fired later than this was missed, for `skip`. A worker fires within milliseconds. */
export const LATE_MS = 2_000;

/** A schedule as it stands in the database; instants in milliseconds. */
export interface ScheduleState extends SlotRule {
  readonly catchUp: CatchUp;
  /** Slots until then were fired, or left out. */
  readonly handledTo: number;
}

/** What to do now with a schedule. */
export interface SchedulePlan {
  /** Slots to fire, in order. */
  readonly slots: readonly number[];
  /** The new `handledTo`; null = as it was. */
  readonly handledTo: number | null;
  /** When it is due next; null = never again. */
  readonly next: number | null;
}

/**
 * What a schedule asks for now: the slots to fire, and when to look again.
 * @throws with a reason, if its rule makes no sense
 */
export function planOf(schedule: ScheduleState, now: number): SchedulePlan {
  const slots = slotsOf(schedule);
  const next = slots.next(now) ?? null;
  const latest = lastSlot(slots, schedule.handledTo, now);
  if (latest === undefined) return { slots: [], handledTo: null, next };
  return { slots: toFire(slots, schedule, latest, now), handledTo: latest, next };
}

function toFire(slots: Slots, schedule: ScheduleState, latest: number, now: number): number[] {
  const { catchUp, handledTo } = schedule;
  switch (catchUp) {
    case 'skip':
      return now - latest <= LATE_MS ? [latest] : [];
    case 'latest':
      return [latest];
    case 'all':
      return latestOf(slots, handledTo, latest);
  }
}

/** The last slots until `latest`, in order. */
function latestOf(slots: Slots, after: number, latest: number): number[] {
  const found: number[] = [];
  for (
    let slot = slots.next(after);
    slot !== undefined && slot <= latest;
    slot = slots.next(slot)
  ) {
    found.push(slot);
    if (found.length > MOST_CAUGHT_UP) return lastOnes(slots, after, latest);
  }
  return found;
}

function lastOnes(slots: Slots, after: number, latest: number): number[] {
  const found: number[] = [];
  let slot: number | undefined = latest;
  while (slot !== undefined && found.length < MOST_CAUGHT_UP) {
    found.unshift(slot);
    slot = lastSlot(slots, after, slot - 1);
  }
  return found;
}
