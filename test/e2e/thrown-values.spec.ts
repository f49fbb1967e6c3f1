import { types } from 'node:util';
import { UnrecoverableError } from 'nestjs-pg-queue';
import { endApps, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

let app: TestApp;
let thrown: unknown;
let calls = 0;
const unhandled: unknown[] = [];
const remember = (reason: unknown) => void unhandled.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', remember);
  const failing = (how: 'throws' | 'rejects') => () => {
    calls += 1;
    // oxlint-disable-next-line typescript/only-throw-error -- what handlers throw is theirs
    if (how === 'throws') throw thrown;
    return Promise.reject(thrown);
  };
  const options = { backoff: { type: 'fixed', delay: '1h' }, concurrency: 1 } as const;
  app = await startWith([
    on('throws', failing('throws'), options),
    on('rejects', failing('rejects'), options),
  ]);
});
afterAll(async () => {
  process.off('unhandledRejection', remember);
  await endApps();
});

const circularRequest: { response?: object; url: string } = { url: 'https://example.org' };
const response = { status: 503, request: circularRequest };
circularRequest.response = response;

const ownCause = new Error('I am my own cause');
ownCause.cause = ownCause;

const chain = new Error('third', { cause: new Error('second', { cause: new Error('first') }) });
const endless = Array.from({ length: 100 }).reduce<Error>(
  (cause, _, n) => new Error(`level ${n}`, { cause }),
  new Error('root'),
);

const values: [string, unknown, RegExp][] = [
  [
    'an error of an HTTP client whose request and response point at each other',
    Object.assign(new Error('Request failed'), { request: circularRequest, response }),
    /^Request failed$/,
  ],
  ['an error that is its own cause', ownCause, /^I am my own cause$/],
  ['a chain of causes', chain, /third.*second.*first/],
  ['an endless chain of causes', endless, /^level 99; caused by: level 98/],
  ['undefined', undefined, /undefined/],
  ['null', null, /null/],
  ['the empty string', '', /''/],
  ['a string', 'plain text', /^plain text$/],
  ['a number', 42, /42/],
  ['a symbol', Symbol('s'), /Symbol\(s\)/],
  ['a function', () => 1, /./],
  ['an object without a prototype', Object.create(null), /./],
  [
    'an object whose toString throws',
    {
      toString() {
        throw new Error('toString');
      },
    },
    /./,
  ],
  [
    'an object whose getters throw',
    {
      get message(): string {
        throw new Error('message');
      },
      get name(): string {
        throw new Error('name');
      },
      get stack(): string {
        throw new Error('stack');
      },
    },
    /./,
  ],
  [
    'a proxy that refuses everything',
    new Proxy(
      {},
      {
        get() {
          throw new Error('get');
        },
        getPrototypeOf() {
          throw new Error('getPrototypeOf');
        },
      },
    ),
    /./,
  ],
  [
    'an error with characters that PostgreSQL refuses',
    new Error('a\u0000b\ud83d'),
    /^a\uFFFDb\uFFFD$/,
  ],
  ['an error with a message of 1 MB', new Error('x'.repeat(1_000_000)), /^x{3999}…$/],
  ['an error without a message', new Error(), /^Error$/],
];

describe.each(['throws', 'rejects'])('B08: a handler that %s', (kind) => {
  it.each(values)('%s has failed an ordinary attempt', async (_what, value, message) => {
    thrown = value;
    calls = 0;
    const { id } = await app.queue.enqueue(kind, {});
    const job = await eventually(async () => {
      const found = await app.queue.get(id);
      expect(found?.status).toBe('scheduled');
      return found!;
    });
    expect(job).toMatchObject({ attempts: 1, lockedBy: null });
    expect(job.lastError).toMatch(message);
    expect(job.lastError?.length).toBeLessThanOrEqual(4_000);
    expect(job.errors).toHaveLength(1);
    expect(job.errors[0]?.name).not.toBe('');
    const cutOff = String(job.lastError).length === 4_000;
    if (types.isNativeError(value) && !cutOff) {
      expect(job.errors[0]?.stack).toContain('thrown-values.spec.ts');
    }
    expect(calls).toBe(1);
    expect(unhandled).toEqual([]);
  });

  it('undefined on the last attempt ends as failed, with something to read', async () => {
    thrown = undefined;
    const { id } = await app.queue.enqueue(kind, {}, { maxAttempts: 1 });
    const job = await eventually(async () => {
      const found = await app.queue.get(id);
      expect(found?.status).toBe('failed');
      return found;
    });
    expect(job?.lastError).toMatch(/undefined/);
  });
});

it('B08: the slot is free after each of them', async () => {
  thrown = new UnrecoverableError('the end');
  const { id } = await app.queue.enqueue('throws', {});
  await eventually(async () => expect(await app.status(id)).toBe('failed'));
  expect(await app.queue.counts()).toMatchObject({ running: 0 });
});
