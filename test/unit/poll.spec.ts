import { Poll } from '../../lib/worker/poll.js';

const { jest } = import.meta;

beforeEach(() => {
  jest.spyOn(Math, 'random').mockReturnValue(0.5); // neither sooner nor later
});
afterEach(() => jest.restoreAllMocks());

test('what was found before the first look counts for nothing', () => {
  expect(new Poll(500).after(0, false)).toBe(500);
});

test('the next look after a job is soon, and then they are less and less often', () => {
  const poll = new Poll(500);
  const delays = [3, 0, 0, 0, 0, 0, 0].map((found) => poll.after(found, false));
  expect(delays).toEqual([20, 40, 80, 160, 320, 500, 500]);
  expect(poll.after(1, false)).toBe(20);
});

test('a shorter interval is kept to after a job, too', () => {
  const poll = new Poll(7);
  expect([1, 0, 0].map((found) => poll.after(found, false))).toEqual([7, 7, 7]);
});

test('who is rung for looks once an interval, whatever was found', () => {
  const poll = new Poll(2_000);
  expect([5, 0, 1].map((found) => poll.after(found, true))).toEqual([2_000, 2_000, 2_000]);
});

test('who is no longer rung for looks as often as what was found says', () => {
  const poll = new Poll(2_000);
  poll.after(1, true);
  poll.after(0, true);
  expect(poll.after(0, false)).toBe(80);
});

test.each([
  [0, 0.75],
  [0.5, 1],
  [0.999_999, 1.25],
])(
  'processes do not look together: a random number of %d makes %d of the time',
  (random, factor) => {
    jest.spyOn(Math, 'random').mockReturnValue(random);
    expect(new Poll(500).after(0, true)).toBeCloseTo(500 * factor, 1);
    expect(new Poll(500).after(1, false)).toBeCloseTo(20 * factor, 1);
  },
);
