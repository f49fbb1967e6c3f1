import type { JobOptions } from '../../lib/contracts/enqueue.js';
import { InvalidJobError } from '../../lib/contracts/errors.js';
import { checkedList, checkedObject, checkTotal, draftJob } from '../../lib/queue/job-draft.js';

const draft = (options: JobOptions = {}, payload: unknown = {}, kind = 'mail') =>
  draftJob(kind, payload, options, undefined);

test('a kind and a payload are a complete job', () => {
  expect(draft({}, { to: 'a' })).toEqual({
    kind: 'mail',
    queue: 'default',
    payload: '{"to":"a"}',
    priority: null,
    runAt: null,
    delayMs: null,
    maxAttempts: null,
    dedupeKey: null,
    meta: null,
  });
});

test('no payload is an empty object, and null is null', () => {
  expect(draftJob('mail', undefined, {}, undefined).payload).toBe('{}');
  expect(draft({}, null).payload).toBe('null');
});

test('what is not said comes from the handler of the kind, and what is said goes before it', () => {
  const defaults = { queue: 'bulk', maxAttempts: 9 };
  expect(draftJob('mail', {}, {}, defaults)).toMatchObject({ queue: 'bulk', maxAttempts: 9 });
  expect(draftJob('mail', {}, { queue: 'fast', maxAttempts: 1 }, defaults)).toMatchObject({
    queue: 'fast',
    maxAttempts: 1,
  });
});

test('every option is taken over as the database takes it', () => {
  expect(
    draft({ priority: -32_768, delay: '1.5s', maxAttempts: 3, dedupe: 'k', meta: { trace: 1 } }),
  ).toMatchObject({
    priority: -32_768,
    delayMs: 1_500,
    maxAttempts: 3,
    dedupeKey: 'k',
    meta: '{"trace":1}',
  });
  expect(draft({ dedupe: { key: 'k' } }).dedupeKey).toBe('k');
});

test('a deadline is an instant or a duration', () => {
  expect(draft({ deadline: '10m' }).deadline).toBe(600_000);
  expect(draft({ deadline: 250 }).deadline).toBe(250);
  expect(draft({ deadline: '2030-03-17T23:16:40+05:30' }).deadline).toBe(
    '2030-03-17T17:46:40.000Z',
  );
  expect(draft({ deadline: new Date(0) }).deadline).toBe('1970-01-01T00:00:00.000Z');
  for (const deadline of ['soon', '2030-03-17', -1, new Date(Number.NaN)]) {
    expect(() => draft({ deadline })).toThrow(/^deadline must be a duration such as '10m'/);
  }
  const runAt = '2030-03-17T00:00:00Z';
  expect(draft({ runAt, deadline: '2030-03-17T00:00:00.001Z' })).toHaveProperty('deadline');
  expect(draft({ delay: '1h', deadline: new Date(0) })).toHaveProperty('deadline');
  expect(() => draft({ runAt, deadline: runAt })).toThrow(/^deadline is not after the time/);
  expect(() => draft({ delay: '1h', deadline: '30m' })).toThrow(/^deadline is not after/);
});

describe('a dedupe key', () => {
  const ruleOf = (dedupe: JobOptions['dedupe']) => draft({ dedupe }).dedupeRule;

  test.each([
    ['k'],
    [{ key: 'k' }],
    [{ key: 'k', until: 'settled', onDuplicate: 'skip' }],
  ] as JobOptions['dedupe'][][])('%j has no rule besides: it goes the usual way', (dedupe) => {
    expect(draft({ dedupe })).toMatchObject({ dedupeKey: 'k', delayMs: null });
    expect(ruleOf(dedupe)).toBeUndefined();
  });

  test('has the rules that were given, and defaults for the others', () => {
    const usual = { until: 'settled', onDuplicate: 'skip', ttlMs: null };
    expect(ruleOf({ key: 'k', until: 'started' })).toEqual({ ...usual, until: 'started' });
    expect(ruleOf({ key: 'k', onDuplicate: 'throw' })).toEqual({ ...usual, onDuplicate: 'throw' });
    expect(ruleOf({ key: 'k', ttl: '1.5s' })).toEqual({ ...usual, ttlMs: 1_500 });
  });

  test('with a debounce replaces what waits, is free when its job starts, and delays it', () => {
    const replaced = { until: 'started', onDuplicate: 'replace', ttlMs: null };
    expect(draft({ dedupe: { key: 'k', debounce: '5s' } })).toMatchObject({
      delayMs: 5_000,
      dedupeRule: replaced,
    });
    expect(ruleOf({ key: 'k', debounce: 1, until: 'settled' })).toMatchObject({ until: 'settled' });
  });
});

describe('an instant', () => {
  const good: [Date | string, string][] = [
    [new Date(1_900_000_000_123), '2030-03-17T17:46:40.123Z'],
    ['2030-03-17T17:46:40.123Z', '2030-03-17T17:46:40.123Z'],
    ['2030-03-17t17:46:40z', '2030-03-17T17:46:40.000Z'],
    ['2030-03-17 17:46Z', '2030-03-17T17:46:00.000Z'],
    ['2030-03-17T23:16:40.5+05:30', '2030-03-17T17:46:40.500Z'],
    ['2030-03-17T14:16:40-03:30', '2030-03-17T17:46:40.000Z'],
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:00.000Z'],
  ];
  test.each(good)('B06: %p is stored to the millisecond', (runAt, stored) => {
    expect(draft({ runAt }).runAt).toBe(stored);
  });

  const bad: unknown[] = [
    '2030-03-17T17:46:40',
    '2030-03-17',
    '17:46',
    'tomorrow',
    '2030-03-17T17:46:40 Europe/Berlin',
    '2030-13-17T17:46:40Z',
    '2030-03-17T25:46:40Z',
    '+010000-01-01T00:00:00Z',
    '',
    1_900_000_000_123,
    new Date(Number.NaN),
    new Date(8.64e15),
    new Date(-8.64e15),
    null,
    { toISOString: () => '2030-03-17T17:46:40Z' },
  ];
  test.each(bad.map((runAt) => [runAt]))('B06: %p is refused', (runAt) => {
    expect(refusal({ runAt } as JobOptions).path).toBe('runAt');
  });
});

const BAD: [string, object, string][] = [
  ['a delay beside an instant', { delay: 1, runAt: new Date() }, 'delay'],
  ['a negative delay', { delay: -1 }, 'delay'],
  ['a delay that is no duration', { delay: 'soon' }, 'delay'],
  ['a delay of NaN', { delay: Number.NaN }, 'delay'],
  ['a priority that is no whole number', { priority: 0.5 }, 'priority'],
  ['a priority that smallint does not hold', { priority: 32_768 }, 'priority'],
  ['a priority that is text', { priority: '1' }, 'priority'],
  ['no attempts', { maxAttempts: 0 }, 'maxAttempts'],
  ['endless attempts', { maxAttempts: Infinity }, 'maxAttempts'],
  ['an empty queue', { queue: '' }, 'queue'],
  ['a queue with NUL', { queue: 'a\0' }, 'queue'],
  ['a queue of 256 bytes', { queue: 'ä'.repeat(128) }, 'queue'],
  ['B01: NUL in the dedupe key', { dedupe: 'a\0' }, 'dedupe'],
  ['B01: half a pair in the dedupe key', { dedupe: { key: '\ud83d' } }, 'dedupe.key'],
  ['an empty dedupe key', { dedupe: '' }, 'dedupe'],
  ['a dedupe key of 1,025 bytes', { dedupe: 'x'.repeat(1_025) }, 'dedupe'],
  ['a dedupe key that is a number', { dedupe: 5 }, 'dedupe'],
  ['a dedupe without a key', { dedupe: {} }, 'dedupe.key'],
  ['a dedupe that is null', { dedupe: null }, 'dedupe'],
  ['an unknown member of dedupe', { dedupe: { key: 'k', untl: 'x' } }, 'dedupe.untl'],
  ['an until that there is not', { dedupe: { key: 'k', until: 'x' } }, 'dedupe.until'],
  [
    'an onDuplicate that there is not',
    { dedupe: { key: 'k', onDuplicate: 1 } },
    'dedupe.onDuplicate',
  ],
  ['a ttl of nothing', { dedupe: { key: 'k', ttl: 0 } }, 'dedupe.ttl'],
  ['a ttl that is no duration', { dedupe: { key: 'k', ttl: 'soon' } }, 'dedupe.ttl'],
  ['a debounce that is no duration', { dedupe: { key: 'k', debounce: -1 } }, 'dedupe.debounce'],
  ['a debounce with a ttl', { dedupe: { key: 'k', debounce: 1, ttl: 1 } }, 'dedupe.ttl'],
  ['a debounce with a delay', { delay: 1, dedupe: { key: 'k', debounce: 1 } }, 'dedupe.debounce'],
  [
    'a debounce with a due time',
    { runAt: '2030-01-01T00:00:00Z', dedupe: { key: 'k', debounce: 1 } },
    'dedupe.debounce',
  ],
  [
    'a debounce that skips',
    { dedupe: { key: 'k', debounce: 1, onDuplicate: 'skip' } },
    'dedupe.onDuplicate',
  ],
  ['meta that is an array', { meta: [] }, 'meta'],
  ['meta that is null', { meta: null }, 'meta'],
  ['B01: NUL in meta', { meta: { a: { b: '\0' } } }, 'meta.a.b'],
  ['a misspelt option', { dely: 1 }, 'dely'],
  ['a day that the calendar has not', { runAt: '2027-02-30T00:00:00Z' }, 'runAt'],
];
test.each(BAD)('%s is refused, and the error names it', (_, options, path) => {
  expect(refusal(options as JobOptions).path).toBe(path);
});

test.each([[undefined], [null], [5], [''], ['a\0'], ['\ud83d'], ['x'.repeat(256)], [['mail']]])(
  'B01: the kind %p is refused',
  (kind) => {
    const error = thrownBy(() => draftJob(kind as string, {}, {}, undefined));
    expect(error.path).toBe('kind');
  },
);

test('a kind of 255 bytes, whatever its characters, is taken', () => {
  expect(draft({}, {}, 'x'.repeat(255)).kind).toHaveLength(255);
  expect(draft({}, {}, ' 😀 ').kind).toBe(' 😀 ');
});

test('the path of one job of many begins with its place', () => {
  const error = thrownBy(() =>
    draftJob('mail', { items: [{ name: '\0' }] }, {}, undefined, 'jobs[2].'),
  );
  expect(error.path).toBe('jobs[2].payload.items[0].name');
});

test('options that are no object are refused', () => {
  expect(refusal(null as unknown as JobOptions).path).toBe('options');
  expect(refusal('5s' as unknown as JobOptions).path).toBe('options');
});

function refusal(options: JobOptions): InvalidJobError {
  return thrownBy(() => draft(options));
}

function thrownBy(work: () => unknown): InvalidJobError {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidJobError);
    return error as InvalidJobError;
  }
  throw new Error('It was not refused');
}

describe('a call that is shaped wrong', () => {
  test.each([null, 'x', 5, []])('options that are %p are refused', (options) => {
    expect(() => checkedObject('options', options)).toThrow(InvalidJobError);
  });

  test('jobs that are no list are refused', () => {
    expect(() => checkedList('x' as never)).toThrow(/must be a list/);
  });

  test('jobs that are more than one statement carries are refused', () => {
    const row = draft({}, 'x'.repeat(1_000_000));
    expect(() => checkTotal(Array<typeof row>(100).fill(row))).not.toThrow();
    expect(() => checkTotal(Array<typeof row>(150).fill(row))).toThrow(/several lists/);
  });
});
