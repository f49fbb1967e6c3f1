import { cronSlots, everySlots, lastSlot, slotsOf, type Slots } from '../../lib/schedules/slots.js';
import { isZone } from '../../lib/schedules/zones.js';
import { everyZone, offsetsOf, type Stretch } from './zones.support.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const at = (text: string): number => new Date(text).getTime();
const iso = (instant: number | undefined): string | undefined =>
  instant === undefined ? undefined : new Date(instant).toISOString().replace(/\.000/, '');

/** The slots after an instant, until another one. */
function slotsIn(slots: Slots, after: string, until: string): (string | undefined)[] {
  const found: (string | undefined)[] = [];
  for (let slot = slots.next(at(after)); slot !== undefined && slot <= at(until);) {
    found.push(iso(slot));
    slot = slots.next(slot);
  }
  return found;
}

describe('B47: cron where clocks change', () => {
  it.each([
    // the clocks of New York go from 02:00 EST (-5) to 03:00 EDT (-4) at 07:00Z
    ['30 2 * * *', 'America/New_York', '2027-03-14', ['2027-03-14T07:00:00Z']],
    ['0 2 * * *', 'America/New_York', '2027-03-14', ['2027-03-14T07:00:00Z']],
    ['59 59 2 * * *', 'America/New_York', '2027-03-14', ['2027-03-14T07:00:00Z']],
    ['30 3 * * *', 'America/New_York', '2027-03-14', ['2027-03-14T07:30:00Z']],
    ['30 1 * * *', 'America/New_York', '2027-03-14', ['2027-03-14T06:30:00Z']],
    ['0,30 2 * * *', 'America/New_York', '2027-03-14', ['2027-03-14T07:00:00Z']],
    // Lord Howe leaps over half an hour, at 15:30Z
    ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-03', ['2026-10-03T15:30:00Z']],
    ['30 2 * * *', 'Australia/Lord_Howe', '2026-10-03', ['2026-10-03T15:30:00Z']],
    // midnight does not exist in Cairo on the last Friday of April
    ['0 0 * * *', 'Africa/Cairo', '2027-04-29', ['2027-04-29T22:00:00Z']],
  ])('gap: %s in %s on %s fires once, at the first valid instant', (cron, zone, day, expected) => {
    const slots = cronSlots(cron, zone);
    expect(slotsIn(slots, `${day}T04:59:59Z`, `${day}T23:59:59Z`)).toEqual(expected);
  });

  it('gap: the days around it are as always', () => {
    const slots = cronSlots('30 2 * * *', 'America/New_York');
    expect(slotsIn(slots, '2027-03-12T12:00:00Z', '2027-03-16T12:00:00Z')).toEqual([
      '2027-03-13T07:30:00Z',
      '2027-03-14T07:00:00Z',
      '2027-03-15T06:30:00Z',
      '2027-03-16T06:30:00Z',
    ]);
  });

  it.each([
    // 01:00 to 02:00 comes twice: from 05:00Z, and from 06:00Z
    ['30 1 * * *', 'America/New_York', '2026-11-01', ['2026-11-01T05:30:00Z']],
    ['0 1 * * *', 'America/New_York', '2026-11-01', ['2026-11-01T05:00:00Z']],
    ['0 2 * * *', 'America/New_York', '2026-11-01', ['2026-11-01T07:00:00Z']],
    ['59 59 1 * * *', 'America/New_York', '2026-11-01', ['2026-11-01T05:59:59Z']],
    ['45 1 * * *', 'Australia/Lord_Howe', '2027-04-03', ['2027-04-03T14:45:00Z']],
    ['30 0 * * *', 'America/Havana', '2026-11-01', ['2026-11-01T04:30:00Z']],
  ])('overlap: %s in %s on %s fires once, the first time', (cron, zone, day, expected) => {
    const slots = cronSlots(cron, zone);
    expect(slotsIn(slots, `${day}T03:59:59Z`, `${day}T23:00:00Z`)).toEqual(expected);
  });

  it('overlap: asked in the middle of the second time, the next is tomorrow', () => {
    const slots = cronSlots('30 1 * * *', 'America/New_York');
    for (const now of ['2026-11-01T05:30:00Z', '2026-11-01T06:15:00Z', '2026-11-01T06:30:00.5Z']) {
      expect(iso(slots.next(at(now)))).toBe('2026-11-02T06:30:00Z');
    }
  });

  it('overlap: the second time of an hour of seconds is passed over in one step', () => {
    const slots = cronSlots('* * 1 * * *', 'America/New_York');
    const begun = performance.now();
    for (let second = 0; second < 10; second += 1) {
      const now = at('2026-11-01T06:00:00Z') + second * 1_000;
      expect(iso(slots.next(now))).toBe('2026-11-02T06:00:00Z');
    }
    expect(performance.now() - begun).toBeLessThan(500); // else 3,600 looks for each
  });

  it.each([
    ['*/15 * * * *', 15 * MINUTE],
    ['*/15 0-23 * * *', 15 * MINUTE],
    ['*/20 * * * * *', 20_000],
    ['0 * * * *', HOUR],
    ['@hourly', HOUR],
    ['30 */1 * * *', HOUR],
  ])('%s keeps its steps of real time through both nights', (cron, step) => {
    const slots = cronSlots(cron, 'America/New_York');
    for (const [from, to] of [
      ['2027-03-13T20:00:00Z', '2027-03-14T20:00:00Z'],
      ['2026-10-31T20:00:00Z', '2026-11-01T20:00:00Z'],
    ] as const) {
      const steps: number[] = [];
      for (let slot = slots.next(at(from)) ?? 0; slot < at(to);) {
        const next = slots.next(slot) ?? 0;
        steps.push(next - slot);
        slot = next;
      }
      expect(new Set(steps)).toEqual(new Set([step]));
    }
  });

  it.each(['0 9 * * 1-5', '0 0 1 * *', '15 10 L * *', '0 12 * * MON#1', '0 0 29 2 *', '@daily'])(
    '%s goes on for six years',
    (cron) => {
      const slots = cronSlots(cron, 'Europe/Madrid');
      let slot = at('2026-01-01T00:00:00Z');
      while (slot < at('2032-01-01T00:00:00Z')) {
        const next = slots.next(slot) ?? 0;
        expect(next).toBeGreaterThan(slot);
        slot = next;
      }
    },
  );
});

describe('B47: in every zone that this runtime has, over two years', () => {
  const from = at('2026-01-01T00:00:00Z');
  const to = at('2028-01-01T00:00:00Z');

  /** The instant of a wall time by what is known of the zone's offsets, found in another way. */
  function expected(stretches: readonly Stretch[], wall: number): number {
    for (const { since, until, offset } of stretches) {
      const instant = wall - offset;
      if (instant < since) return since; // clocks leapt over it: the stretch before ended too early
      if (instant < until) return instant;
    }
    throw new Error('No stretch has that wall time');
  }

  const zones = everyZone();
  const changing = zones.filter((zone) => offsetsOf(zone, from, to).length > 1);

  it('there are hundreds of zones, and clocks change in many', () => {
    expect(zones.length).toBeGreaterThan(400);
    expect(changing.length).toBeGreaterThan(100);
    expect(zones.every(isZone)).toBe(true);
  });

  it.each([
    ['30 2 * * *', [2.5]],
    ['0 0,12 * * *', [0, 12]],
    ['15 0-3 * * *', [0.25, 1.25, 2.25, 3.25]],
  ])('%s is one instant for each wall time, in order', (cron, hours) => {
    for (const zone of zones) {
      const slots = cronSlots(cron, zone);
      const stretches = offsetsOf(zone, from - 2 * 24 * HOUR, to + 2 * 24 * HOUR);
      // Far from a change all days are alike: a look at each would take a minute.
      const days = stretches
        .slice(1)
        .flatMap(({ since }) => [-1, 0, 1].map((n) => since + n * 24 * HOUR))
        .concat(from + 100 * 24 * HOUR);
      for (const day of days) {
        const midnight = Math.floor(day / (24 * HOUR)) * 24 * HOUR;
        const walls = [0, 1].flatMap((n) => hours.map((h) => midnight + (n * 24 + h) * HOUR));
        const instants = [...new Set(walls.map((wall) => expected(stretches, wall)))];
        const found: number[] = [];
        let slot = slots.next((instants[0] ?? 0) - 1);
        while (slot !== undefined && found.push(slot) < instants.length) slot = slots.next(slot);
        expect([zone, ...found.map(iso)]).toEqual([zone, ...instants.map(iso)]);
      }
    }
  });

  it('*/15 * * * * has a slot each quarter of an hour', () => {
    for (const zone of zones) {
      const slots = cronSlots('*/15 * * * *', zone);
      for (const { since } of offsetsOf(zone, from, to).slice(1)) {
        let slot = slots.next(since - 2 * HOUR) ?? 0;
        while (slot < since + 2 * HOUR) {
          const next = slots.next(slot) ?? 0;
          expect([zone, iso(next)]).toEqual([zone, iso(slot + 15 * MINUTE)]);
          slot = next;
        }
      }
    }
  });
});

describe('B49: slots that are far away', () => {
  it.each([
    ['0 0 1 * *', '2026-01-02T00:00:00Z', '2026-02-01T00:00:00Z'],
    ['0 0 29 2 *', '2026-03-01T00:00:00Z', '2028-02-29T00:00:00Z'],
    ['0 0 1 1 *', '2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z'],
    ['* * 1 1 *', '2026-01-01T23:59:00Z', '2027-01-01T00:00:00Z'],
  ])('%s after %s is %s', (cron, after, expected) => {
    expect(iso(cronSlots(cron, 'UTC').next(at(after)))).toBe(expected);
  });
});

describe('every', () => {
  it.each([
    [5 * MINUTE, 0, '2026-01-01T00:00:00Z', '2026-01-01T00:05:00Z'],
    [5 * MINUTE, 0, '2026-01-01T00:04:59.999Z', '2026-01-01T00:05:00Z'],
    [7 * 24 * HOUR, at('2026-01-01T10:00:00Z'), '2026-01-01T10:00:00Z', '2026-01-08T10:00:00Z'],
    [HOUR, at('2026-01-01T00:10:00Z'), '2026-03-01T00:00:00Z', '2026-03-01T00:10:00Z'],
  ])('%d ms from %d: after %s comes %s', (every, anchor, after, expected) => {
    expect(iso(everySlots(every, anchor).next(at(after)))).toBe(expected);
  });
});

describe('start and end', () => {
  const rule = { cron: '0 0 * * *', every: null, timeZone: 'UTC' };
  it('are slots themselves, and nothing lies outside', () => {
    const start = at('2026-06-01T00:00:00Z');
    const end = at('2026-06-03T00:00:00Z');
    const slots = slotsOf({ ...rule, start, end });
    expect(slotsIn(slots, '2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z')).toEqual([
      '2026-06-01T00:00:00Z',
      '2026-06-02T00:00:00Z',
      '2026-06-03T00:00:00Z',
    ]);
  });

  it('a start is where `every` counts from', () => {
    const start = at('2026-06-01T00:00:07Z');
    const slots = slotsOf({ cron: null, every: HOUR, timeZone: 'UTC', start, end: null });
    expect(iso(slots.next(0))).toBe('2026-06-01T00:00:07Z');
    expect(iso(slots.next(start))).toBe('2026-06-01T01:00:07Z');
  });
});

describe('what makes no sense is refused with a reason', () => {
  it.each([
    ['0 0 30 2 *', 'UTC', 'no date ever matches it'],
    ['* * * *', 'UTC', 'it has 4 fields in place of five, or six with seconds'],
    ['* * * * * * 2027', 'UTC', 'it has 7 fields'],
    ['2027-01-01T00:00:00', 'UTC', 'it has 1 fields'],
    ['61 * * * *', 'UTC', 'minute'],
    ['a * * * *', 'UTC', ''],
    ['', 'UTC', 'fields'],
    ['@fortnightly', 'UTC', ''],
    ['0 3 * * *', 'Mars/Phobos', "the time zone 'Mars/Phobos' is not known"],
    ['0 3 * * *', '+02:00', 'not known'],
    ['0 3 * * *', '', 'not known'],
  ])("'%s' in '%s': %s", (cron, zone, reason) => {
    expect(() => cronSlots(cron, zone)).toThrow(reason);
  });
});

describe('the last slot until an instant', () => {
  it.each([
    ['* * * * *', '2026-01-01T00:00:00Z', '2026-01-01T03:00:30Z', '2026-01-01T03:00:00Z'],
    ['* * * * * *', '2025-01-01T00:00:00Z', '2026-01-01T03:00:30Z', '2026-01-01T03:00:30Z'],
    ['0 12 * * *', '2026-01-01T00:00:00Z', '2026-01-01T11:59:59Z', undefined],
    ['0 12 * * *', '2026-01-01T00:00:00Z', '2026-01-01T12:00:00Z', '2026-01-01T12:00:00Z'],
    ['0 0 1 1 *', '2020-06-01T00:00:00Z', '2026-06-01T00:00:00Z', '2026-01-01T00:00:00Z'],
    ['0 0 29 2 *', '2020-06-01T00:00:00Z', '2027-06-01T00:00:00Z', '2024-02-29T00:00:00Z'],
  ])('%s from %s to %s: %s', (cron, after, until, expected) => {
    let looks = 0;
    const counted = { next: (instant: number) => (looks++, cronSlots(cron, 'UTC').next(instant)) };
    expect(iso(lastSlot(counted, at(after), at(until)))).toBe(expected);
    expect(looks).toBeLessThan(80);
  });
});
