import { ClaimPace } from '../../lib/worker/claim-pace.js';

const lane = (want: number) => ({ queue: 'q', kinds: ['k'], want });

test('without a fault the host alone bounds a claim', () => {
  const pace = new ClaimPace();
  pace.answered();
  expect(pace.budget(undefined)).toBeUndefined();
  expect(pace.budget(7)).toBe(7);
  expect(pace.budget(0)).toBe(0);
});

test('claims that are not answered in time are halved down to one, and grow again with each answer', () => {
  const pace = new ClaimPace();
  const budgets = Array.from({ length: 6 }, () => {
    pace.tooSlow([lane(20), lane(10)]);
    return pace.budget(undefined);
  });
  expect(budgets).toEqual([15, 7, 3, 1, 1, 1]);
  pace.answered();
  pace.answered();
  expect(pace.budget(undefined)).toBe(4);
  expect(pace.budget(2)).toBe(2);
});

test('an exchange that claimed nothing bounds no claim', () => {
  const pace = new ClaimPace();
  pace.tooSlow([]);
  expect(pace.budget(undefined)).toBeUndefined();
});

test('the look at scheduled jobs that somebody has locked slows down, until all are promoted', () => {
  const pace = new ClaimPace();
  const delays = Array.from({ length: 10 }, () => pace.promotionDelay());
  expect(delays).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
  pace.promoted();
  expect(pace.promotionDelay()).toBe(5);
});
