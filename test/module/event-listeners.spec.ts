import { Injectable, Scope, type Type } from '@nestjs/common';
import { OnJobEvent, PgQueueError, PgQueueModule } from 'nestjs-pg-queue';
import { compileApp, DATABASE_URL, endApps, freshSchema, on, startApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

afterEach(endApps);

async function startError(provider: Type): Promise<unknown> {
  const app = await compileApp({ providers: [provider] }, { worker: false });
  return app.module.init().then(
    () => 'started',
    (error: unknown) => error,
  );
}

function listener(type: unknown, options?: unknown): Type {
  class Watch {
    @OnJobEvent(type as 'failed', options as object)
    hear() {}
  }
  return Watch;
}

describe('@OnJobEvent refuses at start, by class, method and module,', () => {
  it.each([
    ['a type that there is not', listener('fialed'), 'INVALID_OPTION', /'fialed'.*failed/],
    ['an unknown option', listener('failed', { kinds: 'a' }), 'INVALID_OPTION', /kinds.*kind/],
    ['options that are none', listener('failed', 'mail'), 'INVALID_OPTION', /options/],
    ['a kind that is none', listener('failed', { kind: '' }), 'INVALID_OPTION', /kind/],
    ['an empty list of kinds', listener('failed', { kind: [] }), 'INVALID_OPTION', /kind/],
    ['an unknown instance', listener('failed', { instance: 'x' }), 'INVALID_OPTION', /'default'/],
  ])('%s', async (_, provider, code, message) => {
    const error = await startError(provider);
    expect(error).toBeInstanceOf(PgQueueError);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    expect((error as PgQueueError).message).toMatch(
      /@OnJobEvent\('\w+'\) on Watch\.hear in RootTestModule: /,
    );
  });

  it('a host that is made for each request', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Watch {
      @OnJobEvent('failed')
      hear() {}
    }
    expect(await startError(Watch)).toMatchObject({
      code: 'INVALID_HANDLER',
      message: expect.stringMatching(/Watch\.hear.*default scope/),
    });
  });
});

it('refuses members that are no methods, where it stands', () => {
  expect(() => {
    class Watch {
      @OnJobEvent('failed')
      static hear() {}
    }
    return Watch;
  }).toThrow(/@OnJobEvent\('failed'\) is on Watch\.hear, a static member/);
});

it('listens to the instance that it names', async () => {
  const heard: string[] = [];
  class Watch {
    @OnJobEvent('completed')
    main({ kind }: { kind: string }) {
      heard.push(`main ${kind}`);
    }

    @OnJobEvent('completed', { instance: 'billing' })
    billing({ kind }: { kind: string }) {
      heard.push(`billing ${kind}`);
    }
  }
  const billing = PgQueueModule.forRoot({
    name: 'billing',
    connectionString: DATABASE_URL,
    schema: freshSchema(),
    worker: false,
  });
  const app = await startApp({ imports: [billing], providers: [Watch, on('sum', () => 1)] });
  await app.queue.enqueue('sum');
  await eventually(() => expect(heard).toEqual(['main sum']));
});

it('inherits methods, and calls an override only where that has the decorator too', async () => {
  const heard: string[] = [];
  class Parent {
    @OnJobEvent('enqueued')
    inherited() {
      heard.push('inherited');
    }

    @OnJobEvent('enqueued')
    overridden() {
      heard.push('parent');
    }
  }
  class Child extends Parent {
    override overridden() {
      heard.push('child');
    }
  }
  const app = await startApp({ providers: [Child] }, { worker: false });
  await app.queue.enqueue('note');
  await app.queue.enqueue('note');
  await eventually(() => expect(heard).toEqual(['inherited', 'inherited']));
});
