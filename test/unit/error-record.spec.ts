import { BadRequestException } from '@nestjs/common';
import { describeError } from '../../lib/worker/error-record.js';

/** Fails with the name of what a record may not hold. */
function expectStorable(record: object): void {
  const text = JSON.stringify(record);
  expect(text.length).toBeLessThan(100_000);
  for (const value of Object.values(record)) {
    expect(typeof value).toBe('string');
    expect(value).not.toContain('\0');
    expect((value as string).isWellFormed()).toBe(true);
  }
}

function clientError(): Error {
  const request: { response?: unknown } = {};
  const response = { request };
  request.response = response;
  return Object.assign(new Error('Request failed'), { request, response });
}

function ownCause(): Error {
  const error = new Error('its own cause');
  error.cause = error;
  return error;
}

function ring(): Error {
  const [a, b] = [new Error('a'), new Error('b')];
  a.cause = b;
  b.cause = a;
  return a;
}

const hostile: ProxyHandler<object> = {
  get() {
    throw new Error('get');
  },
  getPrototypeOf() {
    throw new Error('getPrototypeOf');
  },
  has() {
    throw new Error('has');
  },
};

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const THROWN: [string, unknown][] = [
  ['an error whose request and response point at each other', clientError()],
  ['an error that is its own cause', ownCause()],
  ['two errors that cause each other', ring()],
  ['undefined', undefined],
  ['null', null],
  ['empty text', ''],
  ['text', 'no'],
  ['a symbol', Symbol('s')],
  ['a number', 0],
  ['NaN', Number.NaN],
  ['a bigint', 1n],
  ['false', false],
  ['a function', () => {}],
  ['an empty object', {}],
  ['an object without a prototype', Object.create(null)],
  ['an empty array', []],
  ['an error without a message', new Error('')],
  ['an error whose name and message are empty', Object.assign(new Error(''), { name: '' })],
  [
    'an error whose name and message are objects',
    Object.assign(new Error('x'), { name: {}, message: {} }),
  ],
  [
    'an object whose toString throws',
    {
      toString() {
        throw new Error('no');
      },
    },
  ],
  [
    'an error with getters that throw',
    Object.create(Error.prototype, {
      message: {
        get() {
          throw new Error('message');
        },
      },
      stack: {
        get() {
          throw new Error('stack');
        },
      },
      cause: {
        get() {
          throw new Error('cause');
        },
      },
    }),
  ],
  ['a proxy that throws at every touch', new Proxy({}, hostile)],
  ['a proxy around an error that throws at every touch', new Proxy(new Error('x'), hostile)],
  ['a revoked proxy', revoked()],
  [
    'NUL in name, message and stack',
    Object.assign(new Error('a\0b'), { name: 'N\0', stack: 's\0' }),
  ],
  [
    'lone surrogates in name, message and stack',
    Object.assign(new Error('a\ud83d'), { name: '\ude00N', stack: '\ud83d' }),
  ],
  ['a message of 20 million characters', new Error('x'.repeat(20_000_000))],
  ['a message that is cut in the middle of an emoji', new Error(`${'x'.repeat(3_998)}😀😀😀`)],
  ['a chain of a thousand causes', chain(1_000)],
  ['an aggregate of errors', new AggregateError([new Error('a'), new Error('b')], 'both')],
];

function chain(length: number): Error {
  let error = new Error('root');
  for (let i = 1; i < length; i++) error = new Error(`level ${i}`, { cause: error });
  return error;
}

test.each(THROWN)(
  'B08: %s becomes a record that is not empty, storable and bounded',
  (_, thrown) => {
    const record = describeError(thrown);
    expect(record.name).not.toBe('');
    expect(record.message).not.toBe('');
    expectStorable(record);
  },
);

test('B08: name, message, stack and the chain of causes are kept', () => {
  const root = new TypeError('socket hang up');
  const record = describeError(new RangeError('no answer', { cause: root }));
  expect(record.name).toBe('RangeError');
  expect(record.message).toBe('no answer; caused by: socket hang up');
  expect(record.stack).toContain('error-record.spec');
});

test('B08: what was thrown can be recognised although it is no error', () => {
  expect(describeError(undefined).message).toContain('undefined');
  expect(describeError(null).message).toContain('null');
  expect(describeError('').message).toContain("''");
  expect(describeError(Symbol('s')).message).toContain('Symbol(s)');
  expect(describeError('plain text')).toEqual({ name: 'string', message: 'plain text' });
});

test('a cause that is no error is told of too', () => {
  expect(describeError(new Error('x', { cause: 'the disk is full' })).message).toBe(
    'x; caused by: the disk is full',
  );
});

test('an error without a message is told by its code', () => {
  const refused = Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' });
  expect(describeError(refused).message).toContain('ECONNREFUSED');
  expect(describeError(new TypeError('fetch failed', { cause: refused })).message).toContain(
    'ECONNREFUSED',
  );
});

test('a message that is too long ends with an ellipsis, on a whole character', () => {
  const { message } = describeError(new Error(`${'x'.repeat(3_998)}😀😀😀`));
  expect(message).toMatch(/^x{3998}…$/);
});

test('what a ValidationPipe found wrong is in the message', () => {
  const error = new BadRequestException(['email must be an email', 'name should not be empty']);
  const { message } = describeError(error);
  expect(message).toBe('Bad Request Exception: email must be an email; name should not be empty');
});
