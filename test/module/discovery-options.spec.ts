import { Injectable, type Type } from '@nestjs/common';
import type { JobHandlerOptions } from '../../lib/contracts/handler.js';
import { JobHandler } from '../../lib/decorators/job-handler.decorator.js';
import { compile, handlersOf, tableOf } from './discovery.support.js';

/** A class whose one handler, `Exports.generate`, has these options. */
function exportsWith(options: unknown, kind: unknown = 'export'): Type {
  @Injectable()
  class Exports {
    @JobHandler(kind as string, options as JobHandlerOptions)
    generate() {}
  }
  return Exports;
}

async function handlerWith(options: JobHandlerOptions) {
  const table = await handlersOf({ providers: [exportsWith(options)] });
  return table.get('export')!;
}

describe('options of @JobHandler', () => {
  it('have defaults, two of them from the module', async () => {
    const retryable = () => false;
    const app = await compile({ providers: [exportsWith({})] });
    const table = tableOf(app, { defaults: { keepDone: false, retryable } });
    expect(table.get('export')).toEqual({
      kind: 'export',
      queue: 'default',
      concurrency: undefined,
      maxAttempts: 5,
      backoff: { type: 'exponential', base: 2_000, max: 600_000, factor: 2, jitter: 0.5 },
      timeout: undefined,
      keepDone: false,
      limits: [],
      retryable,
      origin: 'Exports.generate',
      run: expect.any(Function),
    });
  });

  it('win over the defaults, and durations become milliseconds', async () => {
    const options = {
      queue: 'exports',
      concurrency: 2,
      maxAttempts: 3,
      backoff: { type: 'fixed', delay: '5s', jitter: 0.1 },
      timeout: '30s',
      keepDone: false,
      retryable: () => false,
      transactional: true,
      stillNeeded: () => true,
    } as const;
    expect(await handlerWith(options)).toMatchObject({ ...options, timeout: 30_000 });
  });

  it('take a function as backoff', async () => {
    const backoff = (attempt: number) => attempt * 1_000;
    expect((await handlerWith({ backoff })).backoff).toBe(backoff);
  });

  const exponential = { type: 'exponential' } as const;
  it.each<[string, unknown, string]>([
    ['queue', { queue: '' }, "The option `queue` is '', but it must be a name"],
    ['queue', { queue: 'a\0b' }, 'The option `queue` is'],
    ['queue', { queue: 7 }, 'The option `queue` is 7'],
    ['concurrency', { concurrency: 0 }, 'The option `concurrency` is 0'],
    ['concurrency', { concurrency: 1.5 }, 'The option `concurrency` is 1.5'],
    ['maxAttempts', { maxAttempts: '5' }, "The option `maxAttempts` is '5'"],
    ['timeout', { timeout: '30 s' }, "The option `timeout` is '30 s'"],
    ['timeout', { timeout: 0 }, 'The option `timeout` is 0'],
    ['keepDone', { keepDone: '7d' }, "The option `keepDone` is '7d'"],
    ['retryable', { retryable: true }, 'The option `retryable` is true'],
    ['globalEnhancers', { globalEnhancers: 1 }, 'The option `globalEnhancers` is 1'],
    ['transactional', { transactional: 'yes' }, "The option `transactional` is 'yes'"],
    ['stillNeeded', { stillNeeded: true }, 'The option `stillNeeded` is true'],
    ['backoff', { backoff: '2s' }, "The option `backoff` is '2s'"],
    ['backoff', { backoff: null }, 'The option `backoff` is an object'],
    ['backoff.type', { backoff: {} }, 'The option `backoff.type` is undefined'],
    ['backoff.type', { backoff: { type: 'linear' } }, "The option `backoff.type` is 'linear'"],
    ['backoff.base', { backoff: { ...exponential, base: -1 } }, 'The option `backoff.base` is -1'],
    ['backoff.max', { backoff: { ...exponential, max: 0 } }, 'The option `backoff.max` is 0'],
    ['backoff.factor', { backoff: { ...exponential, factor: 1 } }, '`backoff.factor` is 1'],
    ['backoff.factor', { backoff: { ...exponential, factor: Infinity } }, 'is Infinity'],
    ['backoff.jitter', { backoff: { ...exponential, jitter: 1.1 } }, '`backoff.jitter` is 1.1'],
    ['backoff.jitter', { backoff: { ...exponential, jitter: NaN } }, '`backoff.jitter` is NaN'],
    ['a misspelt one', { backoff: { ...exponential, delay: 1 } }, 'have no `delay`'],
    ['backoff.delay', { backoff: { type: 'fixed' } }, 'The option `backoff.delay` is'],
    ['a misspelt one', { backoff: { type: 'fixed', delay: 1, base: 1 } }, 'have no `base`'],
    ['a misspelt one', { maxAttempt: 3 }, 'have no `maxAttempt`. Known are: queue,'],
    ['options', null, 'The option `options` is an object'],
  ])('are refused at start: %s %j', async (_option, options, message) => {
    await expect(handlersOf({ providers: [exportsWith(options)] })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(
        /^@JobHandler\('export'\) on Exports\.generate in AppModule: The /,
      ),
    });
    await expect(handlersOf({ providers: [exportsWith(options)] })).rejects.toThrow(message);
  });

  it.each([[''], ['x'.repeat(256)], ['a\0b'], ['\ud800'], [null], [5]])(
    'are refused at start with the kind %j',
    async (kind) => {
      await expect(handlersOf({ providers: [exportsWith({}, kind)] })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('on Exports.generate in AppModule: The option `kind` is'),
      });
    },
  );
});

describe('handlers of several queue instances', () => {
  @Injectable()
  class Reports {
    @JobHandler('report')
    inDefault() {}
    @JobHandler('report', { instance: 'reports' })
    inReports() {}
  }
  const instances = new Set(['default', 'reports']);

  it('go to the table of their instance only, and may share a kind', async () => {
    const app = await compile({ providers: [Reports] });
    const origins = ['default', 'reports'].map((instance) =>
      [...tableOf(app, { instance, instances }).values()].map(({ origin }) => origin),
    );
    expect(origins).toEqual([['Reports.inDefault'], ['Reports.inReports']]);
  });

  it('are refused at start for a name that no forRoot has', async () => {
    const app = await compile({ providers: [Reports] });
    expect(() => tableOf(app)).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        message:
          "@JobHandler('report') on Reports.inReports in AppModule has the option `instance` 'reports', but no forRoot of that name is imported. Known instances: 'default'. Name one of them, or import PgQueueModule.forRoot for it.",
      }),
    );
  });

  it('are refused at start without a name if every forRoot has one', async () => {
    const app = await compile({ providers: [Reports] });
    expect(() => tableOf(app, { instance: 'reports', instances: new Set(['reports']) })).toThrow(
      'Reports.inDefault in AppModule names no instance, but no forRoot without a name is imported',
    );
  });
});
