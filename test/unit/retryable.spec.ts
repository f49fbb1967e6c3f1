import { ValidationError } from 'class-validator';
import {
  BadRequestException,
  HttpException,
  InternalServerErrorException,
  NotFoundException,
  RequestTimeoutException,
} from '@nestjs/common';
import { isRetryable } from '../../lib/worker/retry-policy.js';

const named = (name: string, rest: object = {}) => Object.assign(new Error('x'), { name, ...rest });
const axiosLike = (status: number) =>
  named('AxiosError', { code: 'ERR_BAD_REQUEST', config: {}, response: { status, data: {} } });

const FINAL: [string, unknown][] = [
  ['a 400 of Nest', new BadRequestException()],
  ['a 404 of Nest', new NotFoundException()],
  ['an HttpException whose response is an object', new HttpException({ why: 'no' }, 422)],
  ['a 404 of axios', axiosLike(404)],
  ['a 401 of got', named('HTTPError', { response: { statusCode: 401 } })],
  ['a 403 of a fetch wrapper', named('FetchError', { status: 403 })],
  ['an object that is no Error but has a status', { statusCode: 410 }],
  ['a 499', { status: 499 }],
  ['an error of zod', named('ZodError')],
  ['an error of joi, yup or mongoose', named('ValidationError')],
  ['an error of valibot', named('ValiError')],
  ['the list that class-validator rejects with', [new ValidationError(), new ValidationError()]],
];

const WORTH_RETRYING: [string, unknown][] = [
  ['an ordinary error', new Error('x')],
  ['a 408 of Nest', new RequestTimeoutException()],
  ['a 425', { status: 425 }],
  ['a 429 of axios', axiosLike(429)],
  ['a 500 of Nest', new InternalServerErrorException()],
  ['a 503 of axios', axiosLike(503)],
  ['an axios error without a response', named('AxiosError', { code: 'ECONNRESET' })],
  ['a response that is null', named('AxiosError', { response: null })],
  ['a response that is text', named('Error', { response: 'Not found' })],
  ['a status that is text', { status: '404' }],
  ['a 304', { status: 304 }],
  ['a list with an ordinary error in it', [new ValidationError(), new Error('x')]],
  ['an empty list', []],
  ['undefined', undefined],
  ['null', null],
  ['text', 'no'],
  ['a number', 404],
  ['a symbol', Symbol('s')],
  [
    'a getter that throws',
    {
      get status(): never {
        throw new Error('no');
      },
    },
  ],
  [
    'a proxy that throws at every touch',
    new Proxy(
      {},
      {
        get() {
          throw new Error('no');
        },
        getPrototypeOf() {
          throw new Error('no');
        },
      },
    ),
  ],
  ['a name that can not become text', { name: Object.create(null), status: 404 }],
];

test.each(FINAL)('%s is not worth another attempt', (_, error) => {
  expect(isRetryable(error)).toBe(false);
});

test.each(WORTH_RETRYING)('%s is worth another attempt', (_, error) => {
  expect(isRetryable(error)).toBe(true);
});
