import { Controller, Inject, Injectable, Module, Scope } from '@nestjs/common';
import { NestFactory, REQUEST } from '@nestjs/core';
import type { JobContext } from '../../lib/contracts/job.js';
import { JobHandler } from '../../lib/decorators/job-handler.decorator.js';
import { HandlerExplorer } from '../../lib/discovery/handler-explorer.js';
import {
  compile,
  handlersOf,
  moduleNamed,
  queueModule,
  run,
  tableOf,
} from './discovery.support.js';

@Injectable()
class Emails {
  @JobHandler('send_email')
  send(payload: unknown, job: JobContext) {
    return [this, payload, job.id];
  }
}

describe('handlers are found', () => {
  it('on providers, and called on the instance with payload and job', async () => {
    const table = await handlersOf({ providers: [Emails] });
    expect(table.get('send_email')).toMatchObject({
      kind: 'send_email',
      queue: 'default',
      origin: 'Emails.send',
    });
    const [host, payload, id] = (await run(table, 'send_email', { to: 'a' })) as unknown[];
    expect(host).toBeInstanceOf(Emails);
    expect(payload).toEqual({ to: 'a' });
    expect(id).toEqual(expect.any(String));
  });

  it('on controllers', async () => {
    @Controller()
    class Signups {
      @JobHandler('welcome')
      welcome() {
        return 'welcome';
      }
    }
    expect(await run(await handlersOf({ controllers: [Signups] }), 'welcome')).toBe('welcome');
  });

  it('in a standalone application context', async () => {
    @Module({ imports: [queueModule], providers: [Emails] })
    class StandaloneModule {}
    const app = await NestFactory.createApplicationContext(StandaloneModule, { logger: false });
    expect([...tableOf(app).keys()]).toEqual(['send_email']);
    await app.close();
  });

  it('on a class that inherits them, also over two generations', async () => {
    class Child extends Emails {}
    @Injectable()
    class Grandchild extends Child {}
    const table = await handlersOf({ providers: [Grandchild] });
    expect(table.get('send_email')?.origin).toBe('Grandchild.send');
    expect(((await run(table, 'send_email')) as unknown[])[0]).toBeInstanceOf(Grandchild);
  });

  it('not where a subclass overrides the method without the decorator', async () => {
    @Injectable()
    class Silent extends Emails {
      override send() {
        return [];
      }
    }
    expect((await handlersOf({ providers: [Silent] })).size).toBe(0);
  });

  it('under every kind of a method that has several', async () => {
    @Injectable()
    class Several {
      @JobHandler('a')
      @JobHandler('b', { queue: 'other' })
      run(_payload: unknown, job: JobContext) {
        return job.kind;
      }
    }
    const table = await handlersOf({ providers: [Several] });
    expect(await run(table, 'a')).toBe('a');
    expect(await run(table, 'b')).toBe('b');
    expect(table.get('b')?.queue).toBe('other');
  });

  it.each([
    ['useFactory', { provide: 'EMAILS', useFactory: () => new Emails() }],
    ['an asynchronous useFactory', { provide: 'EMAILS', useFactory: async () => new Emails() }],
    ['useValue', { provide: 'EMAILS', useValue: new Emails() }],
    ['useClass under another token', { provide: 'EMAILS', useClass: Emails }],
  ])('on an instance provided by %s', async (_how, provider) => {
    const [host] = (await run(
      await handlersOf({ providers: [provider] }),
      'send_email',
    )) as unknown[];
    expect(host).toBeInstanceOf(Emails);
  });

  it('beside providers that hold no object with methods', async () => {
    const values = [null, undefined, 0, 'text', Symbol('s'), () => 1, Object.create(null), [], {}];
    const providers = values.map((useValue, index) => ({ provide: `VALUE_${index}`, useValue }));
    expect((await handlersOf({ providers: [...providers, Emails] })).size).toBe(1);
  });
});

describe('getters and property values', () => {
  it('are not touched, on the prototype, its parents or the instance', async () => {
    const touched: string[] = [];
    class Parent {
      get inherited(): never {
        touched.push('inherited');
        throw new Error('A getter of the parent was called');
      }
    }
    @Injectable()
    class Guarded extends Parent {
      constructor() {
        super();
        Object.defineProperty(this, 'own', {
          enumerable: true,
          get: () => {
            touched.push('own');
            throw new Error('A getter of the instance was called');
          },
        });
      }
      get connection(): never {
        touched.push('connection');
        throw new Error('A getter was called');
      }
      set connection(_value: unknown) {
        touched.push('set');
      }
      @JobHandler('guarded')
      run() {
        return 'ran';
      }
    }
    const value = { provide: 'VALUE', useValue: new (class extends Parent {})() };
    const table = await handlersOf({ providers: [Guarded, value] });
    expect(await run(table, 'guarded')).toBe('ran');
    expect(touched).toEqual([]);
  });

  it('of a proxy are not read', async () => {
    const read: PropertyKey[] = [];
    const strict = new Proxy(new Emails(), {
      get(target, property, receiver) {
        read.push(property);
        return Reflect.get(target, property, receiver) as unknown;
      },
    });
    const app = await compile({ providers: [{ provide: 'STRICT', useValue: strict }] });
    read.length = 0;
    expect(app.get(HandlerExplorer, { strict: false }).explore()).toHaveLength(1);
    expect(read).toEqual([]);
  });
});

describe('B39: one instance registers once', () => {
  it('under an alias by useExisting', async () => {
    const alias = { provide: 'ALIAS', useExisting: Emails };
    const table = await handlersOf({ providers: [alias, Emails] });
    expect(((await run(table, 'send_email')) as unknown[])[0]).toBeInstanceOf(Emails);
  });

  it('under an alias in another module, also of a request-scoped provider', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerJob extends Emails {}
    const owner = moduleNamed('Owner', { providers: [PerJob], exports: [PerJob] });
    const table = await handlersOf({
      imports: [owner],
      providers: [
        { provide: 'ALIAS', useExisting: PerJob },
        { provide: Emails, useExisting: PerJob },
      ],
    });
    expect(((await run(table, 'send_email')) as unknown[])[0]).toBeInstanceOf(PerJob);
  });

  it('when a factory or a value passes it on', async () => {
    const emails = new Emails();
    const table = await handlersOf({
      providers: [
        { provide: 'VALUE', useValue: emails },
        { provide: 'FACTORY', inject: ['VALUE'], useFactory: (value: Emails) => value },
      ],
    });
    expect(((await run(table, 'send_email')) as unknown[])[0]).toBe(emails);
  });
});

describe('B39: two owners of a kind', () => {
  it('are refused at start, naming both methods and modules', async () => {
    @Injectable()
    class Mailer {
      @JobHandler('send_email')
      deliver() {}
    }
    const mail = moduleNamed('MailModule', { providers: [Mailer] });
    await expect(handlersOf({ imports: [mail], providers: [Emails] })).rejects.toMatchObject({
      code: 'DUPLICATE_HANDLER',
      message: expect.stringMatching(
        /'send_email' has two handlers: (?=.*Emails\.send in AppModule)(?=.*Mailer\.deliver in MailModule)/,
      ),
    });
  });

  it('are refused when one class is provided in two modules, naming both modules', async () => {
    const imports = [
      moduleNamed('First', { providers: [Emails] }),
      moduleNamed('Second', { providers: [Emails] }),
    ];
    await expect(handlersOf({ imports })).rejects.toMatchObject({
      code: 'DUPLICATE_HANDLER',
      message:
        "The kind 'send_email' has two handlers: Emails.send in First and Emails.send in Second. Provide Emails in one place, and export it from there to be used elsewhere.",
    });
  });

  it('are refused when one request-scoped class is provided in two modules', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerJob extends Emails {}
    const imports = [
      moduleNamed('First', { providers: [PerJob] }),
      moduleNamed('Second', { providers: [PerJob] }),
    ];
    await expect(handlersOf({ imports })).rejects.toMatchObject({ code: 'DUPLICATE_HANDLER' });
  });

  it('are refused when a class is provider and controller at once', async () => {
    await expect(handlersOf({ providers: [Emails], controllers: [Emails] })).rejects.toMatchObject({
      code: 'DUPLICATE_HANDLER',
    });
  });

  it('are refused when one method declares the kind twice', async () => {
    @Injectable()
    class Twice {
      @JobHandler('a')
      @JobHandler('a')
      run() {}
    }
    await expect(handlersOf({ providers: [Twice] })).rejects.toThrow(
      "Twice.run in AppModule declares the kind 'a' twice",
    );
  });
});

describe('B38: a useFactory provider that is made per job', () => {
  const factory = { useFactory: () => new Emails(), scope: Scope.REQUEST };

  it('is found by the class that is its token', async () => {
    const table = await handlersOf({ providers: [{ provide: Emails, ...factory }] });
    const [first] = (await run(table, 'send_email')) as unknown[];
    const [second] = (await run(table, 'send_email')) as unknown[];
    expect(first).toBeInstanceOf(Emails);
    expect(second).not.toBe(first);
  });

  it('is not found under a token that is no class, since nothing exists to look at', async () => {
    expect((await handlersOf({ providers: [{ provide: 'EMAILS', ...factory }] })).size).toBe(0);
  });

  it('fails the job, naming class and method, if the factory returns something else', async () => {
    const table = await handlersOf({
      providers: [{ provide: Emails, useFactory: () => ({}), scope: Scope.REQUEST }],
    });
    await expect(run(table, 'send_email')).rejects.toThrow(
      'Emails in AppModule was made without the method send',
    );
  });

  it('is found when a dependency is request-scoped', async () => {
    const table = await handlersOf({
      providers: [
        {
          provide: Emails,
          inject: [REQUEST],
          useFactory: (job: JobContext) => Object.assign(new Emails(), { job }),
        },
      ],
    });
    const [host, , id] = (await run(table, 'send_email')) as [{ job: JobContext }, unknown, string];
    expect(host.job.id).toBe(id);
  });
});

describe('injected things', () => {
  it('are there in the handler', async () => {
    @Injectable()
    class Reports {
      constructor(@Inject('NAME') private readonly name: string) {}
      @JobHandler('report')
      run() {
        return this.name;
      }
    }
    const providers = [Reports, { provide: 'NAME', useValue: 'weekly' }];
    expect(await run(await handlersOf({ providers }), 'report')).toBe('weekly');
  });
});
