import {
  Body,
  type CallHandler,
  type CanActivate,
  Catch,
  Controller,
  createParamDecorator,
  type ExceptionFilter,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  type NestInterceptor,
  type PipeTransform,
  Post,
  Scope,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  ValidationPipe,
} from '@nestjs/common';
import {
  APP_FILTER,
  APP_GUARD,
  APP_INTERCEPTOR,
  APP_PIPE,
  ExternalContextCreator,
  type ModuleRef,
  ModulesContainer,
  Reflector,
} from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { Type } from 'class-transformer';
import { IsDate, IsEmail } from 'class-validator';
import { map, of } from 'rxjs';
import type { JobContext } from '../../lib/contracts/job.js';
import { getJob, isJobExecution } from '../../lib/decorators/job-execution.js';
import { JobHandler } from '../../lib/decorators/job-handler.decorator.js';
import { CurrentJob, JobPayload } from '../../lib/decorators/job-parameters.decorator.js';
import { HandlerInvoker } from '../../lib/discovery/handler-invoker.js';
import {
  compile,
  handlersOf,
  moduleNamed,
  queueModule,
  run,
  tableOf,
} from './discovery.support.js';

/** What ran, in order. Each test starts with nothing. */
let ran: string[] = [];
beforeEach(() => void (ran = []));

@Injectable()
class Journal {
  note(what: string) {
    ran.push(what);
  }
}

@Injectable()
class JobGuard implements CanActivate {
  constructor(
    private readonly journal: Journal,
    private readonly reflector: Reflector,
  ) {}
  canActivate(context: ExecutionContext) {
    this.journal.note(`guard ${context.getClass().name}.${context.getHandler().name}`);
    const role = this.reflector.get<string | undefined>('role', context.getHandler());
    return isJobExecution(context) && getJob<string>(context).payload !== role;
  }
}

@Injectable()
class JobInterceptor implements NestInterceptor {
  constructor(private readonly journal: Journal) {}
  intercept(context: ExecutionContext, next: CallHandler) {
    this.journal.note(`before ${getJob(context).kind}`);
    return next.handle().pipe(map((result) => `intercepted ${String(result)}`));
  }
}

@Injectable()
class JobPipe implements PipeTransform {
  constructor(private readonly journal: Journal) {}
  transform(value: unknown, { type }: { type: string }) {
    this.journal.note(`pipe ${type}`);
    return type === 'body' ? `piped ${String(value)}` : value;
  }
}

@Catch(RangeError)
class JobFilter implements ExceptionFilter {
  catch(error: RangeError) {
    ran.push(`filter ${error.message}`);
    if (error.message === 'rethrown') throw new TypeError('changed by the filter');
    return error.message === 'handled' ? 'answer of the filter' : undefined;
  }
}

@Injectable()
class OnMethods {
  @UseGuards(JobGuard)
  @SetMetadata('role', 'refused')
  @JobHandler('guarded')
  guarded() {
    return 'ran';
  }

  @UseInterceptors(JobInterceptor)
  @JobHandler('intercepted')
  intercepted() {
    return 'ran';
  }

  @UsePipes(JobPipe)
  @JobHandler('piped')
  piped(payload: string, job: JobContext) {
    return `${payload} ${job.kind}`;
  }

  @UseFilters(JobFilter)
  @JobHandler('filtered')
  filtered(message: string) {
    throw new RangeError(message);
  }
}

@Injectable()
@UseGuards(JobGuard)
@UseInterceptors(JobInterceptor)
@UsePipes(JobPipe)
@UseFilters(JobFilter)
class OnClass {
  @JobHandler('all')
  run(payload: string) {
    ran.push('handler');
    if (payload === 'piped fail') throw new RangeError('handled');
    return payload;
  }
}

describe('guards, interceptors, pipes and filters of a method', () => {
  const table = () => handlersOf({ providers: [OnMethods, Journal] });

  it('guard the job, with injected dependencies and the metadata of the method', async () => {
    expect(await run(await table(), 'guarded', 'let in')).toBe('ran');
    expect(ran).toEqual(['guard OnMethods.guarded']);
  });

  it('fail the job with a ForbiddenException if a guard refuses', async () => {
    await expect(run(await table(), 'guarded', 'refused')).rejects.toThrow(ForbiddenException);
  });

  it('intercept the job and its result', async () => {
    expect(await run(await table(), 'intercepted')).toBe('intercepted ran');
    expect(ran).toEqual(['before intercepted']);
  });

  it('transform the payload, and see the job as a custom parameter', async () => {
    expect(await run(await table(), 'piped', 'payload')).toBe('piped payload piped');
    expect(ran.toSorted()).toEqual(['pipe body', 'pipe custom']);
  });

  it('complete the job with what a filter returns', async () => {
    expect(await run(await table(), 'filtered', 'handled')).toBe('answer of the filter');
  });

  it('fail the job with what a filter throws', async () => {
    await expect(run(await table(), 'filtered', 'rethrown')).rejects.toThrow(
      new TypeError('changed by the filter'),
    );
  });

  it('fail the job with the error itself if the filter returns nothing', async () => {
    const app = await compile({ providers: [OnMethods, Journal] });
    app.useLogger(false);
    await expect(run(tableOf(app), 'filtered', 'left alone')).rejects.toThrow(
      new RangeError('left alone'),
    );
  });
});

describe.each([
  ['a provider', { providers: [OnClass, Journal] }],
  ['a controller', { controllers: [OnClass], providers: [Journal] }],
  ['a provider under another token', { providers: [{ provide: 'X', useClass: OnClass }, Journal] }],
])('guards, interceptors, pipes and filters of the class of %s', (_what, parts) => {
  it('run in the order of Nest', async () => {
    expect(await run(await handlersOf(parts), 'all', 'payload')).toBe('intercepted piped payload');
    expect(ran).toEqual(['guard OnClass.run', 'before all', 'pipe body', 'handler']);
  });

  it('catch the error', async () => {
    expect(await run(await handlersOf(parts), 'all', 'fail')).toBe('answer of the filter');
  });
});

it('guards bound as classes run where a factory passes on what its class provides', async () => {
  const alias = { provide: 'X', inject: [OnClass], useFactory: (host: OnClass) => host };
  const owner = moduleNamed('Owner', { providers: [OnClass, Journal], exports: [OnClass] });
  await run(await handlersOf({ imports: [owner], providers: [alias] }), 'all', 'payload');
  expect(ran).toContain('guard OnClass.run');
});

describe('things bound to a handler that Nest would silently leave out', () => {
  it('refuse the start where a class is bound and the host comes from useFactory', async () => {
    const providers = [{ provide: 'X', useFactory: () => new OnClass() }, Journal];
    await expect(handlersOf({ providers })).rejects.toMatchObject({
      code: 'INVALID_HANDLER',
      message:
        'The job handler OnClass.run in AppModule is bound to the guard JobGuard, which Nest does not make here: it does so for hosts that are provided as a class, not for those of useFactory and useValue. It would silently not run. Provide the class OnClass itself, or bind an instance of JobGuard.',
    });
  });

  it('refuse the start for the pipe of a parameter', async () => {
    class Piped {
      @JobHandler('piped')
      run(@JobPayload(JobPipe) _payload: string) {}
    }
    await expect(
      handlersOf({ providers: [{ provide: 'X', useValue: new Piped() }] }),
    ).rejects.toThrow('Piped.run in AppModule is bound to the pipe JobPipe');
  });

  it('run where an instance is bound and the host comes from useFactory', async () => {
    class WithInstance {
      @UsePipes({ transform: (value: unknown) => `piped ${String(value)}` })
      @JobHandler('piped')
      run(payload: string) {
        return payload;
      }
    }
    const providers = [{ provide: 'X', useFactory: () => new WithInstance() }];
    expect(await run(await handlersOf({ providers }), 'piped', 'x')).toBe('piped x');
  });

  it('refuse the start for a transient guard of a host that is made once', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class TransientGuard implements CanActivate {
      canActivate() {
        return true;
      }
    }
    @Injectable()
    class Host {
      @UseGuards(TransientGuard)
      @JobHandler('guarded')
      run() {}
    }
    await expect(handlersOf({ providers: [Host] })).rejects.toThrow(
      'Host.run in AppModule is bound to the guard TransientGuard, which is transient',
    );
  });
});

describe('a guard bound as a class', () => {
  it('is the one that the module of the host made', async () => {
    @Injectable()
    class Guard implements CanActivate {
      constructor(private readonly journal: Journal) {}
      canActivate() {
        this.journal.note('guard of Other');
        return true;
      }
    }
    @Injectable()
    class Host {
      @UseGuards(Guard)
      @JobHandler('guarded')
      run() {}
    }
    const other = moduleNamed('Other', { providers: [Host, Journal] });
    await run(await handlersOf({ imports: [other] }), 'guarded');
    expect(ran).toEqual(['guard of Other']);
  });
});

describe('global guards, interceptors, pipes and filters', () => {
  class GlobalGuard implements CanActivate {
    canActivate(context: ExecutionContext) {
      ran.push(`global guard in ${context.getType<string>()}`);
      return true;
    }
  }
  class GlobalInterceptor implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler) {
      ran.push('global interceptor');
      return next.handle();
    }
  }
  class GlobalPipe implements PipeTransform {
    transform(value: unknown) {
      ran.push('global pipe');
      return value;
    }
  }
  @Catch()
  class GlobalFilter implements ExceptionFilter {
    catch() {
      ran.push('global filter');
      return 'answer of the global filter';
    }
  }
  @Injectable()
  class Host {
    @JobHandler('plain')
    plain(_payload: unknown) {
      throw new Error('from the handler');
    }
    @JobHandler('global', { globalEnhancers: true })
    global(_payload: unknown) {
      throw new Error('from the handler');
    }
  }
  const providers = [
    Host,
    { provide: APP_GUARD, useClass: GlobalGuard },
    { provide: APP_INTERCEPTOR, useClass: GlobalInterceptor },
    { provide: APP_PIPE, useClass: GlobalPipe },
    { provide: APP_FILTER, useClass: GlobalFilter },
  ];
  const all = ['global guard in pg-queue', 'global interceptor', 'global pipe', 'global filter'];

  it('do not run for jobs', async () => {
    await expect(run(await handlersOf({ providers }), 'plain')).rejects.toThrow('from the handler');
    expect(ran).toEqual([]);
  });

  it('run if the handler asks for them', async () => {
    expect(await run(await handlersOf({ providers }), 'global')).toBe(
      'answer of the global filter',
    );
    expect(ran).toEqual(all);
  });

  it('do the same when they were given to the application', async () => {
    const moduleRef = await Test.createTestingModule({
      imports: [queueModule],
      providers: [Host],
    }).compile();
    const app = moduleRef.createNestApplication({ logger: false });
    app.useGlobalGuards(new GlobalGuard());
    app.useGlobalInterceptors(new GlobalInterceptor());
    app.useGlobalPipes(new GlobalPipe());
    app.useGlobalFilters(new GlobalFilter());
    await app.init();
    const table = tableOf(moduleRef);
    await expect(run(table, 'plain')).rejects.toThrow('from the handler');
    expect(ran).toEqual([]);
    await run(table, 'global');
    expect(ran).toEqual(all);
    await app.close();
  });

  it('run for every job, with a warning, under a Nest that hides its container', async () => {
    const app = await compile({ providers });
    const warnings: unknown[] = [];
    const quiet = () => {};
    app.useLogger({ log: quiet, error: quiet, warn: (line: unknown) => warnings.push(line) });
    const invoker = new HandlerInvoker(
      {} as ModuleRef,
      app.get(ExternalContextCreator),
      app.get(ModulesContainer),
    );
    await expect(run(tableOf(app, { invoker }), 'plain')).rejects.toThrow('from the handler');
    expect(ran).toEqual(all.slice(0, 3));
    expect(warnings).toEqual([expect.stringContaining('they run for every job')]);
  });

  it('refuse the start if asked for on a provider while one is request-scoped', async () => {
    const scoped = { provide: APP_GUARD, useClass: GlobalGuard, scope: Scope.REQUEST };
    await expect(handlersOf({ providers: [Host, scoped] })).rejects.toThrow(
      'Host.global in AppModule asks for globalEnhancers, but GlobalGuard is global and request-scoped',
    );
  });

  it('run on a controller that asks for them, while one is request-scoped', async () => {
    const scoped = { provide: APP_GUARD, useClass: GlobalGuard, scope: Scope.REQUEST };
    const app = await compile({ controllers: [Host], providers: [scoped] });
    app.useLogger(false);
    await expect(run(tableOf(app), 'global')).rejects.toThrow('from the handler');
    expect(ran).toEqual(['global guard in pg-queue']);
  });
});

class SignupDto {
  @IsEmail()
  email!: string;
  @Type(() => Date)
  @IsDate()
  at!: Date;
}

describe('ValidationPipe', () => {
  @Injectable()
  class Signups {
    @UsePipes(new ValidationPipe({ transform: true }))
    @JobHandler('on_method')
    onMethod(dto: SignupDto, job: JobContext) {
      return [dto, job.kind];
    }
    @JobHandler('on_parameter')
    onParameter(
      @CurrentJob() job: JobContext,
      @JobPayload(new ValidationPipe({ transform: true })) dto: SignupDto,
    ) {
      return [dto, job.kind];
    }
    @JobHandler('as_class')
    asClass(@JobPayload(ValidationPipe) dto: SignupDto) {
      return dto;
    }
  }
  const signup = { email: 'a@example.com', at: '2027-01-01T00:00:00.000Z' };

  it.each(['on_method', 'on_parameter'])('gets the class of the payload: %s', async (kind) => {
    const result = await run(await handlersOf({ providers: [Signups] }), kind, signup);
    expect(result).toEqual([{ email: signup.email, at: new Date(signup.at) }, kind]);
    expect((result as unknown[])[0]).toBeInstanceOf(SignupDto);
  });

  it.each(['on_method', 'on_parameter', 'as_class'])(
    'refuses a wrong payload: %s',
    async (kind) => {
      const table = await handlersOf({ providers: [Signups] });
      await expect(run(table, kind, { email: 'nobody' })).rejects.toMatchObject({ status: 400 });
    },
  );
});

describe('parameters', () => {
  const Tenant = createParamDecorator((_data: unknown, context: ExecutionContext) =>
    isJobExecution(context) ? `tenant of ${getJob(context).kind}` : 'tenant of a request',
  );

  @Controller()
  class Mixed {
    @JobHandler('swapped')
    swapped(@CurrentJob() job: JobContext, @JobPayload() payload: unknown) {
      return [job.kind, payload];
    }
    @JobHandler('only_job')
    onlyJob(@CurrentJob() job: JobContext) {
      return job.kind;
    }
    @JobHandler('half')
    half(@JobPayload() payload: unknown, job: JobContext) {
      return [payload, job.kind];
    }
    @JobHandler('custom')
    custom(payload: unknown, job: JobContext, @Tenant() tenant: string) {
      return [payload, job.kind, tenant];
    }
    @Post('both')
    @JobHandler('both')
    both(@Body() body: unknown, @CurrentJob() job?: JobContext) {
      return { body, kind: job?.kind ?? 'no job' };
    }
  }

  it('come in the order that their decorators say', async () => {
    const table = await handlersOf({ controllers: [Mixed] });
    expect(await run(table, 'swapped', 1)).toEqual(['swapped', 1]);
    expect(await run(table, 'only_job', 1)).toBe('only_job');
    expect(await run(table, 'half', 1)).toEqual([1, 'half']);
  });

  it('keep the method out of the pipeline of Nest where nothing else is bound to it', async () => {
    const callers = (): unknown => new Error('who calls?').stack;
    @UseGuards(
      new (class {
        canActivate = () => true;
      })(),
    )
    class Guarded {
      @JobHandler('guarded')
      handle() {
        return callers();
      }
    }
    class Plain {
      @JobHandler('none')
      none() {
        return callers();
      }
      @JobHandler('payload')
      ofPayload(_payload: unknown) {
        return callers();
      }
      @JobHandler('both')
      ofBoth(_payload: unknown, _job: JobContext) {
        return callers();
      }
      @JobHandler('swapped')
      swapped(@CurrentJob() _job: JobContext, @JobPayload() _payload: unknown) {
        return callers();
      }
      @JobHandler('custom')
      custom(_payload: unknown, _job: JobContext, @Tenant() _tenant: string) {
        return callers();
      }
    }
    const table = await handlersOf({ providers: [Guarded, Plain] });
    const pipeline = expect.stringContaining('external-context-creator');
    for (const kind of ['none', 'payload', 'both', 'swapped']) {
      expect([kind, await run(table, kind)]).toEqual([
        kind,
        expect.not.stringContaining('external-context-creator'),
      ]);
    }
    for (const kind of ['guarded', 'custom'])
      expect([kind, await run(table, kind)]).toEqual([kind, pipeline]);
  });

  it('may be decorated by the application', async () => {
    const table = await handlersOf({ controllers: [Mixed] });
    expect(await run(table, 'custom', 1)).toEqual([1, 'custom', 'tenant of custom']);
  });

  it('of a route that is a job handler too are the body or the payload', async () => {
    const moduleRef = await compile({ controllers: [Mixed] });
    const app = moduleRef.createNestApplication({ logger: false });
    await app.listen(0, '127.0.0.1');
    const response = await fetch(`${await app.getUrl()}/both`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
    expect(await response.json()).toEqual({ body: { a: 1 }, kind: 'no job' });
    const table = tableOf(moduleRef);
    expect(await run(table, 'both', { a: 2 })).toEqual({ body: { a: 2 }, kind: 'both' });
    await app.close();
  });

  it('keep their metadata where a subclass overrides the method with another order', async () => {
    @Injectable()
    class Child extends Mixed {
      @JobHandler('child')
      override half(@CurrentJob() job: never, @JobPayload() payload: never) {
        return [job, payload];
      }
    }
    const [, payload] = (await run(
      await handlersOf({ providers: [Child] }),
      'child',
      'x',
    )) as unknown[];
    expect(payload).toBe('x');
  });
});

describe('the result', () => {
  it('of an observable is its last value', async () => {
    @Injectable()
    class Streams {
      @JobHandler('stream')
      run() {
        return of(1, 2, 3);
      }
    }
    expect(await run(await handlersOf({ providers: [Streams] }), 'stream')).toBe(3);
  });

  it('of a failure without a filter is not logged by Nest, since the worker logs it', async () => {
    const logged: unknown[] = [];
    @Injectable()
    class Fails {
      @JobHandler('fails')
      run() {
        throw new Error('broken');
      }
    }
    const app = await compile({ providers: [Fails] });
    const log = (...line: unknown[]) => void logged.push(line);
    app.useLogger({ log, error: log, warn: log });
    await expect(run(tableOf(app), 'fails')).rejects.toThrow('broken');
    expect(logged).toEqual([]);
  });

  it('is a rejection with the very value that the handler threw', async () => {
    const thrown = { not: 'an error' };
    @Injectable()
    class Throws {
      @JobHandler('throws')
      run() {
        // oxlint-disable-next-line typescript/only-throw-error -- handlers throw anything
        throw thrown;
      }
    }
    await expect(run(await handlersOf({ providers: [Throws] }), 'throws')).rejects.toBe(thrown);
  });
});
