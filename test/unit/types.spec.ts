import {
  OnJobEvent,
  type JobContext,
  type JobEventOf,
  type JobKinds,
  type JobRecord,
  type NewJob,
  type PayloadOf,
  type QueueService,
  type ResultOf,
} from 'nestjs-pg-queue';

// What an application writes, in as many files as it likes; test/compat does it to the packed package.
declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'types.email': { userId: string; copies?: number };
    'types.nothing': undefined;
  }
  interface JobResults {
    'types.email': { messageId: string };
    'types.result-only': number;
  }
}

/** Whether two types are the same, and not only assignable. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

function holds<_Claim extends true>(): void {}

describe('kinds that the application declares', () => {
  it('have the payload that was declared, wherever it is read', () => {
    type Email = { userId: string; copies?: number };
    holds<Same<JobKinds['types.email'], Email>>();
    holds<Same<PayloadOf<'types.email'>, Email>>();
    holds<Same<JobContext<'types.email'>['payload'], Email>>();
    holds<Same<JobContext<'types.email'>['kind'], 'types.email'>>();
    holds<Same<JobRecord<'types.email'>['payload'], Email>>();
    holds<Same<NonNullable<NewJob<'types.email'>['payload']>, Email>>();
  });

  it('are checked by enqueue and enqueueMany', () => {
    function calls(queue: QueueService) {
      const right = [
        queue.enqueue('types.email', { userId: '7' }),
        queue.enqueue('types.email', { userId: '7', copies: 2 }, { delay: '1m' }),
        queue.enqueue('types.nothing'),
        queue.enqueueMany([
          { kind: 'types.email', payload: { userId: '7' } },
          { kind: 'types.nothing' },
          { kind: 'types.undeclared', payload: Math.random() },
        ]),
      ];
      const wrong = [
        // @ts-expect-error -- userId is a string
        queue.enqueue('types.email', { userId: 7 }),
        // @ts-expect-error -- userId is missing
        queue.enqueue('types.email', {}),
        // @ts-expect-error -- the kind has a payload
        queue.enqueue('types.email'),
        // @ts-expect-error -- there is no such member
        queue.enqueue('types.email', { userId: '7', userld: '7' }),
        // @ts-expect-error -- the kind has no payload
        queue.enqueue('types.nothing', { userId: '7' }),
        // @ts-expect-error -- there is no such option
        queue.enqueue('types.email', { userId: '7' }, { delai: '1m' }),
        queue.enqueueMany([
          { kind: 'types.nothing' },
          // @ts-expect-error -- userId is a string
          { kind: 'types.email', payload: { userId: 7 } },
          // @ts-expect-error -- the kind has a payload
          { kind: 'types.email' },
        ]),
      ];
      return [right, wrong];
    }
    expect(calls).toBeInstanceOf(Function);
  });

  it('are read as declared by get, where the caller names the kind', () => {
    async function read(queue: QueueService) {
      const job = await queue.get<'types.email'>('1');
      holds<Same<NonNullable<typeof job>['payload']['userId'], string>>();
      const any = await queue.get('1');
      holds<Same<NonNullable<typeof any>['payload'], unknown>>();
    }
    expect(read).toBeInstanceOf(Function);
  });
});

describe('results that the application declares', () => {
  it('are what enqueueAndWait and waitFor resolve to', () => {
    holds<Same<ResultOf<'types.email'>, { messageId: string }>>();
    async function calls(queue: QueueService) {
      const sent = await queue.enqueueAndWait('types.email', { userId: '7' }, { timeout: '5s' });
      holds<Same<typeof sent, { messageId: string }>>();
      const count = await queue.enqueueAndWait('types.result-only', 7);
      holds<Same<typeof count, number>>();
      const again = await queue.waitFor<'types.email'>('7');
      holds<Same<typeof again, { messageId: string }>>();
      // @ts-expect-error -- userId is a string
      await queue.enqueueAndWait('types.email', { userId: 7 });
      // @ts-expect-error -- the job would wait for the transaction
      await queue.enqueueAndWait('types.email', { userId: '7' }, { tx: queue });
    }
    expect(calls).toBeInstanceOf(Function);
  });

  it('are unknown for kinds without one', () => {
    holds<Same<ResultOf<'types.nothing'>, unknown>>();
    async function calls(queue: QueueService) {
      const nothing = await queue.enqueueAndWait('types.nothing');
      holds<Same<typeof nothing, unknown>>();
      const any = await queue.waitFor('7');
      holds<Same<typeof any, unknown>>();
    }
    expect(calls).toBeInstanceOf(Function);
  });
});

describe('@OnJobEvent', () => {
  it('takes methods that take the event', () => {
    class Right {
      @OnJobEvent('failed')
      async failed({ error }: JobEventOf<'failed'>): Promise<string> {
        return error.message;
      }

      @OnJobEvent('completed')
      none(): void {}
    }
    class Wrong {
      // @ts-expect-error -- a completed job has no error
      @OnJobEvent('completed')
      completed({ error }: JobEventOf<'failed'>): string {
        return error.message;
      }
    }
    expect([Right, Wrong]).toHaveLength(2);
  });
});

describe('kinds that nobody declares', () => {
  it('have a payload of type unknown, and take any', () => {
    holds<Same<PayloadOf<'types.undeclared'>, unknown>>();
    holds<Same<JobContext['payload'], unknown>>();
    holds<Same<JobContext<'types.undeclared'>['payload'], unknown>>();
    function calls(queue: QueueService, kind: string) {
      return [
        queue.enqueue('types.undeclared', 7),
        queue.enqueue('types.undeclared'),
        queue.enqueue(kind, { any: 'thing' }, { priority: 1 }),
      ];
    }
    expect(calls).toBeInstanceOf(Function);
  });
});
