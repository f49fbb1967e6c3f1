import { goesAlong, lookDelay, nextLook } from '../../lib/queue/wait-pace.js';

describe('lookDelay', () => {
  it.each([
    [0, 5],
    [8, 5],
    [20, 5],
    [40, 10],
    [400, 100],
    [1_000, 250],
    [1_001, 250],
    [3_600_000, 250],
  ])('after %d ms is %d ms', (waited, delay) => {
    expect(lookDelay(waited)).toBe(delay);
  });
});

describe('nextLook', () => {
  const span = { since: 1_000, deadline: 31_000 };

  it.each([
    ['at the beginning', 1_000, 1_005],
    ['a quarter of what was waited later', 1_400, 1_500],
    ['250 ms later at most', 10_000, 10_250],
    ['just before the end, so that its answer is in time', 30_900, 30_980],
    ['as often as ever when that last one is out', 30_980, 31_230],
    ['as often as ever when the time is over', 32_000, 32_250],
  ])('goes out %s', (_, now, next) => {
    expect(nextLook(span, now)).toBe(next);
  });

  it('is not put off to the last one by a time limit that is shorter than that', () => {
    expect(nextLook({ since: 1_000, deadline: 1_010 }, 1_000)).toBe(1_005);
  });
});

describe('goesAlong', () => {
  it.each([
    ['what is due', 1_000, 1_000, true],
    ['what is overdue', 1_000, 900, true],
    ['what is nearly due: half of the delay is over', 1_000, 1_125, true],
    ['not what was looked at just now', 1_000, 1_126, false],
  ])('takes %s', (_, now, dueAt, goes) => {
    expect(goesAlong({ since: 0, deadline: 60_000 }, dueAt, now)).toBe(goes);
  });

  it('does not take a job that was enqueued just now', () => {
    const span = { since: 1_000, deadline: 60_000 };
    expect(goesAlong(span, nextLook(span, 1_000), 1_000)).toBe(false);
  });
});
