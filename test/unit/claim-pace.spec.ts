import { ClaimPace } from '../../lib/worker/claim-pace.js';

const lane = (want: number) => ({ queue: 'q', want });

test('without a fault the host alone bounds a claim', () => {
  const pace = new ClaimPace();
  pace.answered(1);
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
  pace.answered(1);
  pace.answered(1);
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

test('the round trip is an average in which each exchange halves what was before it', () => {
  const pace = new ClaimPace();
  expect(pace.roundTrip).toBe(0);
  const averages = [8, 8, 2].map((took) => {
    pace.answered(took);
    return pace.roundTrip;
  });
  expect(averages).toEqual([4, 6, 4]);
});

test('a claim that was not answered says nothing about the round trip', () => {
  const pace = new ClaimPace();
  pace.answered(8);
  pace.tooSlow([lane(20)]);
  expect(pace.roundTrip).toBe(4);
});
