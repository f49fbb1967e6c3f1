import { WaitingJobs } from '../../lib/worker/waiting-jobs.js';
import { seededRandom } from '../support/random.js';

interface Job {
  readonly id: number;
  readonly priority: number;
}

function waitingOf(...priorities: readonly number[]): WaitingJobs<Job> {
  const waiting = new WaitingJobs<Job>();
  priorities.forEach((priority, id) => waiting.add({ id, priority }, id));
  return waiting;
}

function shiftAll(waiting: WaitingJobs<Job>): number[] {
  return Array.from({ length: waiting.size }, () => waiting.shift()?.id ?? -1);
}

test.each<[string, number[], number[]]>([
  ['nothing', [], []],
  ['equals in the order in which they came', [0, 0, 0], [0, 1, 2]],
  ['the more urgent ones first', [5, -5, 0], [1, 2, 0]],
  ['equals among others in the order in which they came', [1, 0, 1, 0], [1, 3, 0, 2]],
  ['an urgent one before all that came earlier', [0, 0, 0, -1], [3, 0, 1, 2]],
])('it answers %s', (_, priorities, order) => {
  const waiting = waitingOf(...priorities);
  expect(waiting.size).toBe(priorities.length);
  expect(shiftAll(waiting)).toEqual(order);
  expect(waiting.size).toBe(0);
  expect(waiting.shift()).toBeUndefined();
});

test('what has been taken is not before an urgent job that comes later', () => {
  const waiting = waitingOf(3, 3, 3);
  expect(waiting.shift()?.id).toBe(0);
  waiting.add({ id: 9, priority: 0 }, 9);
  expect(waiting.size).toBe(3);
  expect(shiftAll(waiting)).toEqual([9, 1, 2]);
});

test('it goes on after it was empty', () => {
  const waiting = waitingOf(0);
  waiting.shift();
  waiting.add({ id: 7, priority: 0 }, 7);
  expect(shiftAll(waiting)).toEqual([7]);
});

describe('those that came before an instant', () => {
  test.each<[string, number, number[], number[]]>([
    ['none, where all are younger', 0, [], [1, 2, 0]],
    ['not the one that came at that instant', 1, [0], [1, 2]],
    ['in their order, whatever the age of what is between them', 2, [1, 0], [2]],
    ['all', Infinity, [1, 2, 0], []],
  ])('are taken out: %s', (_, instant, taken, left) => {
    const waiting = waitingOf(5, -5, 0);
    expect(waiting.takeOlderThan(instant).map(({ id }) => id)).toEqual(taken);
    expect(waiting.size).toBe(left.length);
    expect(shiftAll(waiting)).toEqual(left);
  });

  test('do not include those that were taken already', () => {
    const waiting = waitingOf(0, 0, 0);
    waiting.shift();
    expect(waiting.takeOlderThan(2).map(({ id }) => id)).toEqual([1]);
    expect(shiftAll(waiting)).toEqual([2]);
  });
});

test.each([1, 2, 3])(
  'it is a list sorted by urgency and arrival, whatever is done (seed %d)',
  (seed) => {
    const random = seededRandom(seed);
    const waiting = new WaitingJobs<Job>();
    let model: Job[] = [];
    for (let id = 0; id < 1_000; id++) {
      const action = random();
      if (action < 0.52) {
        const job = { id, priority: Math.floor(random() * 5) };
        waiting.add(job, id);
        model = [...model, job].toSorted((a, b) => a.priority - b.priority || a.id - b.id);
      } else if (action < 0.98) {
        expect(waiting.shift()).toBe(model.shift());
      } else {
        const instant = id - Math.floor(random() * 40);
        expect(waiting.takeOlderThan(instant)).toEqual(model.filter((job) => job.id < instant));
        model = model.filter((job) => job.id >= instant);
      }
      expect(waiting.size).toBe(model.length);
    }
  },
);
