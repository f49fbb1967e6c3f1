import type { CatchUp } from '../../lib/contracts/schedule.js';
import { MOST_CAUGHT_UP, planOf, type ScheduleState } from '../../lib/schedules/plan.js';

const MINUTE = 60_000;
const at = (text: string): number => new Date(text).getTime();

const EVERY_MINUTE: ScheduleState = {
  cron: '* * * * *',
  every: null,
  timeZone: 'UTC',
  start: null,
  end: null,
  catchUp: 'latest',
  handledTo: at('2026-05-01T09:00:00Z'),
};
const NOON: ScheduleState = { ...EVERY_MINUTE, cron: '0 12 * * *' };
const noon = at('2026-05-01T12:00:00Z');

describe('what a schedule asks for now', () => {
  it('nothing before its slot, but to be looked at then', () => {
    expect(planOf(NOON, noon - 1)).toEqual({ slots: [], handledTo: null, next: noon });
  });

  it.each<CatchUp>(['skip', 'latest', 'all'])('its slot when it is due (%s)', (catchUp) => {
    const plan = planOf({ ...NOON, catchUp }, noon + 3);
    expect(plan).toEqual({ slots: [noon], handledTo: noon, next: at('2026-05-02T12:00:00Z') });
  });

  it('nothing again of a slot that was handled', () => {
    const plan = planOf({ ...NOON, handledTo: noon }, noon + 3);
    expect(plan).toMatchObject({ slots: [], handledTo: null });
  });

  it('nothing ever again when it has ended', () => {
    const ended = { ...NOON, end: noon };
    expect(planOf(ended, noon)).toEqual({ slots: [noon], handledTo: noon, next: null });
    expect(planOf({ ...ended, handledTo: noon }, noon + MINUTE)).toMatchObject({ next: null });
  });
});

describe('B52: slots that were missed', () => {
  const now = at('2026-05-01T12:00:30Z');

  it.each<[CatchUp, number]>([
    ['skip', 0],
    ['latest', 1],
    ['all', 1],
  ])('a deploy over noon: %s fires %d', (catchUp, fires) => {
    const plan = planOf({ ...NOON, catchUp }, noon + 3_000);
    expect(plan.slots).toEqual([noon].slice(0, fires));
    expect(plan.handledTo).toBe(noon);
  });

  it('three hours of minutes: `latest` fires the last one, once', () => {
    expect(planOf(EVERY_MINUTE, now)).toEqual({
      slots: [noon],
      handledTo: noon,
      next: noon + MINUTE,
    });
  });

  it('`skip` fires none of them, and goes on with the next', () => {
    const plan = planOf({ ...EVERY_MINUTE, catchUp: 'skip' }, now);
    expect(plan).toEqual({ slots: [], handledTo: noon, next: noon + MINUTE });
  });

  it('`all` fires each in order, if they are not too many', () => {
    const state = { ...EVERY_MINUTE, catchUp: 'all', handledTo: noon - 3 * MINUTE } as const;
    const expected = [noon - 2 * MINUTE, noon - MINUTE, noon];
    expect(planOf(state, now)).toMatchObject({ slots: expected, handledTo: noon });
  });

  it('of more than a hundred, `all` fires the last hundred', () => {
    const { slots, handledTo } = planOf({ ...EVERY_MINUTE, catchUp: 'all' }, now);
    const expected = Array.from(
      { length: MOST_CAUGHT_UP },
      (_, n) => noon - (MOST_CAUGHT_UP - 1 - n) * MINUTE,
    );
    expect(slots).toEqual(expected);
    expect(handledTo).toBe(noon);
  });

  it('a year of seconds costs no more than a moment', () => {
    const seconds = {
      ...EVERY_MINUTE,
      cron: '* * * * * *',
      handledTo: noon - 365 * 24 * 60 * MINUTE,
    };
    const begun = performance.now();
    expect(planOf({ ...seconds, catchUp: 'all' }, noon).slots).toHaveLength(MOST_CAUGHT_UP);
    expect(performance.now() - begun).toBeLessThan(2_000);
  });
});
