import { PgQueueError } from '../../lib/contracts/errors.js';
import type { JobHandlerOptions } from '../../lib/contracts/handler.js';
import { getQueueToken, InjectQueue } from '../../lib/decorators/inject-queue.decorator.js';
import { getJob, isJobExecution } from '../../lib/decorators/job-execution.js';
import { JobHandler } from '../../lib/decorators/job-handler.decorator.js';
import { CurrentJob, JobPayload } from '../../lib/decorators/job-parameters.decorator.js';
import { handlersOf, ownParameters } from '../../lib/decorators/metadata.js';

function handlers(classRef: { prototype: object }, method: string) {
  const declared = (classRef.prototype as Record<string, object>)[method]!;
  return handlersOf(classRef.prototype, method, declared);
}

function parameterIndexes(classRef: object, method: string): number[] {
  return Object.values(ownParameters(classRef, method))
    .map(({ index }) => index)
    .sort();
}

describe('@JobHandler', () => {
  it('keeps kind and options with the method', () => {
    const options: JobHandlerOptions = { queue: 'mail' };
    class Emails {
      @JobHandler('send_email', options)
      send() {}
    }
    expect(handlers(Emails, 'send')).toEqual([{ kind: 'send_email', options }]);
  });

  it('can be put on one method for several kinds', () => {
    class Emails {
      @JobHandler('a')
      @JobHandler('b', { queue: 'mail' })
      send() {}
    }
    expect(handlers(Emails, 'send').map(({ kind }) => kind)).toEqual(['b', 'a']);
  });

  it('does not add to the handlers that the parent has', () => {
    class Parent {
      @JobHandler('parent')
      run() {}
    }
    class Child extends Parent {
      @JobHandler('child')
      override run() {}
    }
    expect(handlers(Parent, 'run')).toHaveLength(1);
    expect(handlers(Child, 'run').map(({ kind }) => kind)).toEqual(['child']);
  });

  it('survives a decorator that replaces the method', () => {
    const traced: MethodDecorator = (_target, _name, descriptor) => {
      descriptor.value = (() => 'traced') as never;
    };
    class Emails {
      @traced
      @JobHandler('send_email')
      send() {}
    }
    expect(handlers(Emails, 'send')).toHaveLength(1);
  });

  it('goes along with a method that a mixin copies', () => {
    class Mixin {
      @JobHandler('send_email')
      send() {}
    }
    class Emails {}
    Object.defineProperty(Emails.prototype, 'send', { value: Mixin.prototype.send });
    expect(handlers(Emails, 'send')).toHaveLength(1);
  });

  it.each<[string, () => unknown]>([
    [
      'Emails.send, a static member',
      () => {
        class Emails {
          @JobHandler('send_email')
          static send() {}
        }
        return Emails;
      },
    ],
    [
      'Emails.Symbol(send), which is named by a symbol',
      () => {
        const send = Symbol('send');
        class Emails {
          @JobHandler('send_email')
          [send]() {}
        }
        return Emails;
      },
    ],
    [
      'Emails.send, which is a property and no method',
      () => {
        class Emails {
          @JobHandler('send_email')
          get send() {
            throw new Error('read');
          }
        }
        return Emails;
      },
    ],
  ])('refuses %s', (what, declare) => {
    expect(declare).toThrow(PgQueueError);
    expect(declare).toThrow(expect.objectContaining({ code: 'INVALID_HANDLER' }));
    expect(declare).toThrow(`@JobHandler('send_email') is on ${what}`);
  });

  it('refuses a property that holds a function', () => {
    class Emails {}
    const decorate = JobHandler('send_email') as PropertyDecorator;
    expect(() => decorate(Emails.prototype, 'send')).toThrow('which is a property and no method');
  });

  it('gives payload and job to a method without parameter decorators', () => {
    class Emails {
      @JobHandler('send_email')
      send(_payload: unknown, _job: unknown) {}
    }
    expect(parameterIndexes(Emails, 'send')).toEqual([0, 1]);
  });

  it('gives only the payload to a method of one parameter, so that pipes bound to it see nothing else', () => {
    class Emails {
      @JobHandler('send_email')
      send(_payload: unknown) {}
    }
    expect(parameterIndexes(Emails, 'send')).toEqual([0]);
  });

  it('adds no parameter where the job comes first', () => {
    class Emails {
      @JobHandler('send_email')
      send(@CurrentJob() _job: unknown, _other?: unknown) {}
    }
    expect(parameterIndexes(Emails, 'send')).toEqual([0]);
  });
});

describe('@JobPayload', () => {
  it('is refused on a constructor', () => {
    const declare = () => {
      class Emails {
        constructor(@JobPayload() _payload: unknown) {}
      }
      return Emails;
    };
    expect(declare).toThrow('@JobPayload is on a parameter of the constructor of Emails');
  });
});

describe('@InjectQueue', () => {
  it('names one token per instance', () => {
    expect(getQueueToken()).toBe('nestjs-pg-queue:default:QueueService');
    expect(getQueueToken('reports')).toBe('nestjs-pg-queue:reports:QueueService');
  });

  it('injects into parameters and properties', () => {
    class Signups {
      @InjectQueue('reports')
      readonly reports: unknown;
      constructor(@InjectQueue() readonly queue: unknown) {}
    }
    expect(Reflect.getMetadata('self:paramtypes', Signups)).toEqual([
      { index: 0, param: getQueueToken() },
    ]);
    expect(Reflect.getMetadata('self:properties_metadata', Signups)).toEqual([
      { key: 'reports', type: getQueueToken('reports') },
    ]);
  });
});

describe('getJob', () => {
  const context = (type: string, ...args: unknown[]) =>
    ({ getType: () => type, getArgByIndex: (index: number) => args[index] }) as never;

  it('reads the job of a job execution', () => {
    const job = { id: '1' };
    expect(isJobExecution(context('pg-queue', {}, job))).toBe(true);
    expect(getJob(context('pg-queue', {}, job))).toBe(job);
  });

  it('refuses any other context, naming it', () => {
    expect(isJobExecution(context('http'))).toBe(false);
    expect(() => getJob(context('http'))).toThrow("a context of type 'http'");
  });
});
