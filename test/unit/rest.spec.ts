import { Rest, type Advice } from '../../lib/worker/rest.js';

/** What happens, and at which millisecond. */
type Event =
  | readonly [at: number, what: 'ring']
  /** A turn that found that many jobs and could have claimed more. */
  | readonly [at: number, what: 'spare', found: number]
  /** A turn that got all it asked for, or had nothing to ask for. */
  | readonly [at: number, what: 'full'];

const WAIT: Advice = { doorbell: 'wait' };
const LET_GO: Advice = { doorbell: 'let go' };
const AS_IT_IS: Advice = { doorbell: 'as it is' };
const lookIn = (pollIn: number): Advice => ({ doorbell: 'as it is', pollIn });

/** What is advised after the last of the events. For a ring: whether to let go. */
function after(rest: Rest, ...events: readonly Event[]): Advice | boolean | undefined {
  let answer: Advice | boolean | undefined;
  for (const [now, what, found = 0] of events) {
    if (what === 'ring') answer = rest.rang(now);
    else answer = rest.after({ found, hasSpare: what === 'spare' }, now);
  }
  return answer;
}

function rings(count: number, from: number, to: number): Event[] {
  return Array.from({ length: count }, (_, i) => [from + ((to - from) * i) / count, 'ring']);
}

/** A worker that is rung for too often, 30 ms after its first ring at 1000. */
function busyRest(): Rest {
  const rest = new Rest();
  expect(after(rest, ...rings(30, 1_000, 1_030))).toBe(true);
  return rest;
}

describe('under light load', () => {
  const cases: [string, Event[], Advice | boolean][] = [
    ['an idle worker waits', [[0, 'spare', 0]], WAIT],
    [
      'a job found now and then changes nothing',
      [
        [0, 'spare', 1],
        [50, 'spare', 0],
        [100, 'spare', 1],
      ],
      WAIT,
    ],
    [
      'a burst that is claimed at once changes nothing',
      [
        [0, 'full'],
        [3, 'full'],
        [6, 'spare', 4],
      ],
      WAIT,
    ],
    ['29 rings in 100 ms change nothing', rings(29, 0, 100), false],
    ['30 rings in more than 100 ms change nothing', rings(60, 0, 220), false],
    ['and after them the worker waits', [...rings(60, 0, 220), [221, 'spare', 1]], WAIT],
  ];
  test.each(cases)('%s', (_, events, advice) => {
    expect(after(new Rest(), ...events)).toEqual(advice);
  });
});

describe('a worker that is saturated', () => {
  const cases: [string, Event[], Advice][] = [
    [
      'lets nothing go in the first 20 ms',
      [
        [0, 'full'],
        [10, 'full'],
        [19.9, 'full'],
      ],
      AS_IT_IS,
    ],
    [
      'lets go after 20 ms',
      [
        [0, 'full'],
        [10, 'full'],
        [20, 'full'],
      ],
      LET_GO,
    ],
    [
      'goes on letting go',
      [
        [0, 'full'],
        [20, 'full'],
        [500, 'full'],
      ],
      LET_GO,
    ],
    [
      'begins anew after a turn that left room',
      [
        [0, 'full'],
        [10, 'spare', 1],
        [20, 'full'],
        [39, 'full'],
      ],
      AS_IT_IS,
    ],
    [
      'waits again as soon as a turn left room',
      [
        [0, 'full'],
        [20, 'full'],
        [21, 'spare', 3],
      ],
      WAIT,
    ],
  ];
  test.each(cases)('%s', (_, events, advice) => {
    expect(after(new Rest(), ...events)).toEqual(advice);
  });
});

describe('a worker that is rung for 30 times in 100 ms', () => {
  test('lets go at once, and once', () => {
    const rest = new Rest();
    const answers = rings(40, 0, 90).map((ring) => after(rest, ring));
    expect(answers.indexOf(true)).toBe(29);
    expect(answers.filter(Boolean)).toHaveLength(1);
  });

  test('looks every 2 ms while it finds jobs', () => {
    const rest = busyRest();
    for (let now = 1_031; now < 1_400; now += 2) {
      expect(after(rest, [now, 'spare', 1])).toEqual(lookIn(2));
    }
  });

  test('looks less and less often while it finds nothing, down to every 32 ms', () => {
    const rest = busyRest();
    after(rest, [1_031, 'spare', 8]);
    const times = [1_033, 1_037, 1_045, 1_061, 1_093];
    const advice = times.map((now) => after(rest, [now, 'spare', 0]));
    expect(advice).toEqual([4, 8, 16, 32, 32].map(lookIn));
    expect(after(rest, [1_095, 'spare', 1])).toEqual(lookIn(2));
  });

  test('looks every 2 ms again after it was saturated', () => {
    const rest = busyRest();
    after(rest, [1_031, 'spare', 0], [1_035, 'spare', 0], [1_036, 'full']);
    expect(after(rest, [1_040, 'spare', 8])).toEqual(lookIn(2));
  });

  test('waits again after 100 ms in which there were fewer than 5 jobs', () => {
    const rest = busyRest();
    after(rest, [1_031, 'spare', 4]);
    expect(after(rest, [1_099, 'spare', 0])).toEqual(lookIn(4));
    expect(after(rest, [1_100, 'spare', 0])).toEqual(WAIT);
  });

  test('does not while there are 5 jobs in 100 ms', () => {
    const rest = busyRest();
    after(rest, [1_031, 'spare', 5]);
    expect(after(rest, [1_100, 'spare', 3])).toEqual(lookIn(2));
    after(rest, [1_150, 'spare', 2]);
    expect(after(rest, [1_200, 'spare', 4])).toEqual(lookIn(2));
    expect(after(rest, [1_300, 'spare', 9])).toEqual(WAIT);
  });

  test('can be busy again after it was quiet', () => {
    const rest = busyRest();
    expect(after(rest, [5_000, 'spare', 0])).toEqual(WAIT);
    expect(after(rest, ...rings(30, 5_001, 5_050))).toBe(true);
    expect(after(rest, [5_051, 'spare', 1])).toEqual(lookIn(2));
  });
});
