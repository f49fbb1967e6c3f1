import { InvalidJobError } from '../../lib/contracts/errors.js';
import { jsonText, MAX_JSON_BYTES } from '../../lib/queue/json-text.js';

const NUL_ESCAPE = '\\u0000'; // six plain characters

function cycle(): object {
  const value: { inner: { back?: unknown } } = { inner: {} };
  value.inner.back = value;
  return value;
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

const shared = { a: 1 };

const ownJson = Object.defineProperty({ n: 1 }, 'toJSON', {
  value() {
    return this as unknown;
  },
});

const GOOD: [string, unknown, string][] = [
  ['B03: an array', [1, { a: 2 }], '[1,{"a":2}]'],
  ['B03: an empty array', [], '[]'],
  ['B03: text', 'x', '"x"'],
  ['B03: a number', 42, '42'],
  ['B03: false', false, 'false'],
  ['B03: null', null, 'null'],
  ['B01: the six characters of an escaped NUL', { s: NUL_ESCAPE }, String.raw`{"s":"\\u0000"}`],
  ['B01: whole emoji', { '😀': '👩‍👩‍👧' }, '{"😀":"👩‍👩‍👧"}'],
  ['a date', { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ['undefined in an object, as JSON does', { a: undefined, b: 1 }, '{"b":1}'],
  ['undefined in an array, as JSON does', [undefined], '[null]'],
  ['one object in two places', [shared, shared], '[{"a":1},{"a":1}]'],
  ['an object with toJSON', { toJSON: () => ({ n: 1 }) }, '{"n":1}'],
  ['toJSON that answers its own object', ownJson, '{"n":1}'],
  [
    'an instance of a class',
    new (class Money {
      amount = 5;
    })(),
    '{"amount":5}',
  ],
  ['a key that is a word of JavaScript', JSON.parse('{"__proto__":1}'), '{"__proto__":1}'],
  ['500 levels', nested(500), `${'['.repeat(500)}1${']'.repeat(500)}`],
];

const BAD: [string, unknown, string][] = [
  ['B01: NUL in text', { s: 'a\0b' }, 'payload.s'],
  ['B01: NUL deep inside', { items: [{}, {}, { name: '\0' }] }, 'payload.items[2].name'],
  ['B01: half of a surrogate pair', { s: '\ud83d' }, 'payload.s'],
  ['B01: the other half, at the top', 'x\ude00', 'payload'],
  ['B01: NUL in a key', { a: { 'b\0': 1 } }, String.raw`the key "b\u0000" in payload.a`],
  ['B01: half a pair in a key', { '\ud83d': 1 }, String.raw`the key "\ud83d" in payload`],
  ['B03: a bigint', { n: 1n }, 'payload.n'],
  ['B03: an object that contains itself', cycle(), 'payload.inner.back'],
  ['NaN', [1, Number.NaN], 'payload[1]'],
  ['Infinity', { a: -Infinity }, 'payload.a'],
  ['a function', { 'on click': () => {} }, 'payload["on click"]'],
  ['a symbol', [Symbol('s')], 'payload[0]'],
  ['undefined at the top', undefined, 'payload'],
  ['toJSON at the top that answers undefined', { toJSON: () => undefined }, 'payload'],
  ['a Map', { m: new Map([[1, 2]]) }, 'payload.m'],
  ['a Set', [new Set([1])], 'payload[0]'],
  ['toJSON that answers NUL', { a: { toJSON: () => '\0' } }, 'payload.a'],
  ['toJSON that answers a bigint', { a: { toJSON: () => 1n } }, 'payload.a'],
  ['501 levels', nested(501), `payload${'[0]'.repeat(500)}`],
  ['a megabyte', 'x'.repeat(MAX_JSON_BYTES), 'payload'],
  [
    'half a megabyte of characters that take three bytes',
    '€'.repeat(MAX_JSON_BYTES / 2),
    'payload',
  ],
];

test.each(GOOD)('%s becomes JSON', (_, value, text) => {
  expect(jsonText(value, 'payload')).toBe(text);
});

test.each(BAD)('%s is refused with its path', (_, value, path) => {
  const error = refusal(() => jsonText(value, 'payload'));
  expect(error.path).toBe(path);
  expect(error.message.startsWith(`${path} `)).toBe(true);
  expect(error.message).toMatch(/\.$/);
});

const THROWING: [string, () => unknown][] = [
  [
    'toJSON that throws',
    () => ({
      a: {
        toJSON() {
          throw new Error('broken');
        },
      },
    }),
  ],
  [
    'a getter that throws',
    () => ({
      get a(): never {
        throw new Error('broken');
      },
    }),
  ],
];
test.each(THROWING)('%s is refused, with what was thrown as the cause', (_, make) => {
  const error = refusal(() => jsonText(make(), 'payload'));
  expect(error.path).toBe('payload');
  expect(error.cause).toMatchObject({ message: 'broken' });
});

test('an invalid date is null, as JSON says', () => {
  expect(jsonText({ a: new Date(Number.NaN) }, 'payload')).toBe('{"a":null}');
});

test('a value that changes when it is read again is checked all the same', () => {
  let reads = 0;
  const value = {
    get a() {
      reads += 1;
      return reads === 1 ? 'x' : '\0';
    },
  };
  expect(refusal(() => jsonText(value, 'payload')).path).toBe('payload');
});

function refusal(work: () => unknown): InvalidJobError {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidJobError);
    expect((error as InvalidJobError).code).toBe('INVALID_JOB');
    return error as InvalidJobError;
  }
  throw new Error('It was not refused');
}
