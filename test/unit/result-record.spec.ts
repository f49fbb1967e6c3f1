import { MAX_RESULT_BYTES, resultRecord } from '../../lib/worker/result-record.js';

function cycle(): object {
  const value: { self?: unknown } = {};
  value.self = value;
  return value;
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

const throwing = (thrown: unknown) => ({
  toJSON() {
    throw thrown;
  },
});

const KEPT: [string, unknown, string | undefined][] = [
  ['undefined', undefined, undefined],
  ['a function', () => {}, undefined],
  ['a symbol', Symbol('s'), undefined],
  ['null', null, 'null'],
  ['false', false, 'false'],
  ['empty text', '', '""'],
  ['an array', [1, { a: [] }], '[1,{"a":[]}]'],
  ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
  ['numbers that JSON does not have', [Number.NaN, Infinity], '[null,null]'],
  ['whole emoji', '😀', '"😀"'],
  ['the six characters of an escaped NUL', '\\u0000', String.raw`"\\u0000"`],
  ['a backslash before the text ud83d', '\\ud83d', String.raw`"\\ud83d"`],
  ['toJSON that answers undefined', { toJSON: () => undefined }, undefined],
];

const REPLACED: [string, unknown, RegExp][] = [
  ['a bigint', { n: 1n }, /BigInt/],
  ['an object that contains itself', cycle(), /circular/],
  ['NUL in text', { s: 'a\0b' }, /characters/],
  ['NUL in a key', { 'a\0': 1 }, /characters/],
  ['NUL after a backslash', '\\\0', /characters/],
  ['half of a surrogate pair', ['\ud83d'], /characters/],
  ['the other half in a key', { '\ude00': 1 }, /characters/],
  ['more than the limit', 'x'.repeat(MAX_RESULT_BYTES), /larger/],
  ['few characters of many bytes', '€'.repeat(MAX_RESULT_BYTES / 2), /larger/],
  ['toJSON that throws', throwing(new Error('no json')), /no json/],
  ['toJSON that throws undefined', throwing(undefined), /./],
  ['toJSON that throws an error with NUL', throwing(new Error('a\0b')), /a/],
  ['toJSON that throws an error whose message is an object', throwing({ message: {} }), /./],
  [
    'toJSON that throws a proxy that throws at every touch',
    throwing(
      new Proxy(new Error('x'), {
        get() {
          throw new Error('get');
        },
        getPrototypeOf() {
          throw new Error('getPrototypeOf');
        },
      }),
    ),
    /./,
  ],
  ['a value too deep for PostgreSQL', nested(20_000), /./],
];

test.each(KEPT)('%s is kept as JSON', (_, value, text) => {
  expect(resultRecord(value)).toBe(text);
});

test.each(REPLACED)('%s is replaced by a marker that says why', (_, value, reason) => {
  const text = resultRecord(value) as string;
  const { notStored } = JSON.parse(text) as { notStored: string };
  expect(notStored).toMatch(reason);
  expect(text.isWellFormed()).toBe(true);
  expect(text).not.toContain(String.raw`\u0000`);
});

test('a result of exactly the limit is kept', () => {
  const value = 'x'.repeat(MAX_RESULT_BYTES - 2);
  expect(resultRecord(value)).toBe(`"${value}"`);
});
