import type { Lane, Position, Progress } from '../../lib/store/statements/exchange.js';
import { ResumePositions, type LookPlan } from '../../lib/worker/resume-positions.js';

const lane: Lane = { queue: 'mail', want: 10 };
const DUE = '2031-01-01 00:00:00+00';

const at = (priority: number, id = priority): Position => ({
  priority,
  runAt: DUE,
  id: String(id),
});

/** What an exchange says: the index of each look that found something, and its last job. */
function progress(last: readonly (readonly [number, Position])[], took = 0): Progress {
  return { dueAfter: DUE, last: last.map(([look, position]) => ({ look, position })), took };
}

/** One exchange. Answers its plan. */
function exchange(
  positions: ResumePositions,
  now: number,
  last: readonly (readonly [number, Position])[] = [],
  { lanes = [lane], took = 0 }: { lanes?: readonly Lane[]; took?: number } = {},
): LookPlan {
  const plan = positions.plan(lanes, now);
  positions.advance(plan, progress(last, took), now);
  return plan;
}

/** A look as from..to; `*` is from the start, or to the end. */
const stretchesOf = ({ looks }: LookPlan): string[] =>
  looks.map(
    ({ after, upto }) => `${after ? `${after.priority}:${after.id}` : '*'}..${upto ?? '*'}`,
  );

test('the first look is a full one, for each lane in its order', () => {
  const other: Lane = { queue: 'bulk', only: ['k'], want: 2, slots: 'bulk', free: 2 };
  const plan = new ResumePositions().plan([lane, other], 0);
  expect(plan.looks).toEqual([
    { ...lane, lane: 0 },
    { ...other, lane: 1 },
  ]);
  expect(plan).toMatchObject({ dueAfter: undefined, isFull: true });
});

test('the next look begins after the last job, and before that at what is more urgent', () => {
  const positions = new ResumePositions();
  exchange(positions, 0, [[0, at(0, 7)]]);
  const plan = positions.plan([{ ...lane, want: 3 }], 1);
  expect(plan.looks).toEqual([
    { queue: 'mail', want: 3, lane: 0, upto: -1 },
    { queue: 'mail', want: 3, lane: 0, after: at(0, 7) },
  ]);
  expect(plan).toMatchObject({ dueAfter: DUE, isFull: false });
});

test('a look that found nothing leaves nothing to begin after', () => {
  const positions = new ResumePositions();
  exchange(positions, 0);
  expect(stretchesOf(positions.plan([lane], 1))).toEqual(['*..*']);
});

describe('after a full look that ended at priority 5, and short looks that found', () => {
  const cases: [string, (readonly [number, Position])[][], string[]][] = [
    ['nothing, it stays there', [[]], ['*..4', '5:1..*']],
    ['more behind it, it goes on', [[[1, at(5, 9)]]], ['*..4', '5:9..*']],
    [
      'a more urgent job, there is a place in each',
      [[[0, at(2, 3)]]],
      ['*..1', '2:3..4', '5:1..*'],
    ],
    [
      'a less urgent job, there is a place in each',
      [[[1, at(8, 4)]]],
      ['*..4', '5:1..7', '8:4..*'],
    ],
    [
      'jobs in several stretches, each goes on by itself',
      [
        [[0, at(2, 3)]],
        [
          [1, at(2, 6)],
          [2, at(5, 7)],
        ],
      ],
      ['*..1', '2:6..4', '5:7..*'],
    ],
    [
      'a job between two places, there is one more',
      [[[0, at(2, 3)]], [[1, at(4, 8)]]],
      ['*..1', '2:3..3', '4:8..4', '5:1..*'],
    ],
  ];
  test.each(cases)('%s', (_, short, stretches) => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(5, 1)]]);
    for (const last of short) exchange(positions, 1, last);
    expect(stretchesOf(positions.plan([lane], 2))).toEqual(stretches);
  });
});

test('only the places in the eight most urgent priorities are kept', () => {
  const positions = new ResumePositions();
  exchange(positions, 0, [[0, at(20)]]);
  for (let priority = 19; priority > 9; priority--) exchange(positions, 1, [[0, at(priority)]]);
  const stretches = stretchesOf(positions.plan([lane], 2));
  expect(stretches).toHaveLength(9);
  expect(stretches[0]).toBe('*..9');
  expect(stretches[8]).toBe('17:17..*');
});

describe('lanes', () => {
  test('come on independently of each other', () => {
    const bulk: Lane = { queue: 'bulk', want: 4 };
    const positions = new ResumePositions();
    exchange(positions, 0, [[1, at(0, 5)]], { lanes: [lane, bulk] });
    const plan = positions.plan([lane, bulk], 1);
    expect(plan.looks.map(({ lane: index, queue }) => [index, queue])).toEqual([
      [0, 'mail'],
      [1, 'bulk'],
      [1, 'bulk'],
    ]);
    expect(stretchesOf(plan)).toEqual(['*..*', '*..-1', '0:5..*']);
  });

  test('are told apart by their queue and their kinds, not by how much they want', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0, 5)]]);
    const isShort = (other: Lane) => !positions.plan([other], 1).lanes[0]?.isFull;
    expect(isShort({ queue: 'mail', want: 1, slots: 'mail', free: 1 })).toBe(true);
    expect(isShort({ queue: 'bulk', want: 10 })).toBe(false);
    expect(isShort({ queue: 'mail', want: 10, only: ['k'] })).toBe(false);
    expect(isShort({ queue: 'mail', want: 10, except: ['k'] })).toBe(false);
  });

  test('of which one is looked at from a place make no full look', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0)]]);
    const plan = positions.plan([lane, { queue: 'bulk', want: 1 }], 1);
    expect(plan.lanes.map(({ isFull }) => isFull)).toEqual([false, true]);
    expect(plan.isFull).toBe(false);
  });

  test('keep their places while they are not asked for', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0, 5)]]);
    exchange(positions, 1, [[0, at(0, 6)]], { lanes: [{ queue: 'bulk', want: 1 }] });
    expect(stretchesOf(positions.plan([lane], 2))).toEqual(['*..-1', '0:5..*']);
  });
});

describe('a full look', () => {
  /** When the next look is full, after one at 0 that took that long. */
  const cases: [string, { took: number; ring?: number; now: number; isFull: boolean }][] = [
    ['is not due within a second', { took: 0, now: 999, isFull: false }],
    ['is due after a second', { took: 0, now: 1_000, isFull: true }],
    ['is due at once when something rang', { took: 0, ring: 1, now: 1, isFull: true }],
    ['takes no more than a tenth of the time', { took: 20, ring: 1, now: 199, isFull: false }],
    ['comes when its share allows it', { took: 20, ring: 1, now: 200, isFull: true }],
    ['that took long is not due after a second', { took: 300, now: 2_999, isFull: false }],
    ['that took long is due after ten times as long', { took: 300, now: 3_000, isFull: true }],
  ];
  test.each(cases)('%s', (_, { took, ring, now, isFull }) => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0)]], { took });
    if (ring !== undefined) positions.lookFully();
    const plan = positions.plan([lane], now);
    expect(plan.isFull).toBe(isFull);
    expect(plan.dueAfter).toBe(isFull ? undefined : DUE);
    expect(stretchesOf(plan)).toEqual(isFull ? ['*..*'] : ['*..-1', '0:0..*']);
  });

  test('that is wished for says when it is allowed', () => {
    const positions = new ResumePositions();
    expect(positions.fullLookIn(0)).toBe(0);
    exchange(positions, 0, [], { took: 20 });
    expect(positions.fullLookIn(50)).toBeUndefined();
    positions.lookFully();
    expect(positions.fullLookIn(50)).toBe(150);
    expect(positions.fullLookIn(200)).toBe(0);
    exchange(positions, 200);
    expect(positions.fullLookIn(200)).toBeUndefined();
  });

  test('is not waited for in a lane that is not asked for now', () => {
    const own: Lane = { queue: 'mail', only: ['own'], want: 1 };
    const others: Lane = { queue: 'mail', except: ['own'], want: 3 };
    const positions = new ResumePositions();
    exchange(positions, 0, [], { lanes: [own, others] });
    positions.lookFully();
    exchange(positions, 1, [], { lanes: [others] });
    expect(positions.fullLookIn(1)).toBeUndefined();
    // It keeps its wish until it is.
    expect(positions.plan([own, others], 2).lanes.map(({ isFull }) => isFull)).toEqual([
      true,
      false,
    ]);
  });

  test('is made for a wish that came before it was allowed', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [], { took: 20 });
    positions.lookFully();
    expect(exchange(positions, 100).isFull).toBe(false);
    expect(exchange(positions, 201).isFull).toBe(true);
    expect(exchange(positions, 202).isFull).toBe(false);
  });

  test('is made again for a wish that came while one was on its way', () => {
    const positions = new ResumePositions();
    const plan = positions.plan([lane], 0);
    positions.lookFully();
    positions.advance(plan, progress([]), 30);
    expect(positions.plan([lane], 31).isFull).toBe(true);
  });

  test('ends the wish for one', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0)]]);
    positions.lookFully();
    expect(exchange(positions, 1, [[0, at(0)]]).isFull).toBe(true);
    expect(positions.plan([lane], 2).isFull).toBe(false);
  });

  test('keeps the places of other priorities, and puts back that of its own', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0, 7)]]);
    exchange(positions, 1, [[0, at(5, 9)]]);
    expect(exchange(positions, 1_500, [[0, at(5, 2)]]).isFull).toBe(true);
    expect(stretchesOf(positions.plan([lane], 1_501))).toEqual(['*..-1', '0:7..4', '5:2..*']);
    exchange(positions, 3_000);
    expect(stretchesOf(positions.plan([lane], 3_001))).toEqual(['*..-1', '0:7..4', '5:2..*']);
  });

  test('that finds only priority 5 keeps the place of priority 0', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0, 7)]]);
    positions.lookFully();
    expect(exchange(positions, 1, [[0, at(5, 9)]]).isFull).toBe(true);
    expect(stretchesOf(positions.plan([lane], 2))).toEqual(['*..-1', '0:7..4', '5:9..*']);
  });

  test('is not put off by short looks, however long they take', () => {
    const positions = new ResumePositions();
    exchange(positions, 0, [[0, at(0)]]);
    exchange(positions, 990, [[1, at(0, 9)]], { took: 300 });
    expect(positions.plan([lane], 1_000).isFull).toBe(true);
  });
});

describe('scheduled jobs', () => {
  test('are looked at from where the last promotion ended', () => {
    const positions = new ResumePositions();
    exchange(positions, 0);
    const plan = positions.plan([lane], 1);
    positions.advance(plan, { ...progress([]), dueAfter: 'later' }, 1);
    expect(positions.plan([lane], 2).dueAfter).toBe('later');
  });

  test('are looked at from the start where the last exchange named no place', () => {
    const positions = new ResumePositions();
    const plan = positions.plan([lane], 0);
    positions.advance(plan, { ...progress([]), dueAfter: undefined }, 0);
    expect(positions.plan([lane], 1).dueAfter).toBeUndefined();
  });

  test('are looked at from a place by a new lane, whose look is then not full', () => {
    const positions = new ResumePositions();
    exchange(positions, 0);
    const plan = positions.plan([{ queue: 'bulk', want: 1 }], 1);
    expect(plan).toMatchObject({ dueAfter: DUE, isFull: false });
    expect(plan.lanes).toMatchObject([{ isFull: true }]);
  });
});

test('an exchange that was not answered changes nothing', () => {
  const positions = new ResumePositions();
  positions.plan([lane], 0);
  expect(positions.plan([lane], 1).isFull).toBe(true);
  exchange(positions, 2, [[0, at(0, 5)]]);
  const before = positions.plan([lane], 3);
  expect(positions.plan([lane], 4)).toEqual(before);
});
