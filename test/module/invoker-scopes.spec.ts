import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Inject,
  Injectable,
  Scope,
  UseGuards,
} from '@nestjs/common';
import {
  type ContextId,
  ContextIdFactory,
  type ContextIdStrategy,
  type HostComponentInfo,
  REQUEST,
} from '@nestjs/core';
import type { JobContext } from '../../lib/contracts/job.js';
import { JobHandler } from '../../lib/decorators/job-handler.decorator.js';
import { compile, handlersOf, job, moduleNamed, run, tableOf } from './discovery.support.js';

@Injectable({ scope: Scope.REQUEST })
class CurrentTenant {
  constructor(@Inject(REQUEST) readonly request: JobContext) {}
}

@Injectable()
class Mailer {
  constructor(readonly tenant: CurrentTenant) {}
}

/** Gets a request-scoped service two levels down. */
@Injectable()
class Emails {
  constructor(readonly mailer: Mailer) {}
  @JobHandler('send_email')
  send(_payload: unknown, job: JobContext) {
    return { host: this, isTheJob: this.mailer.tenant.request === job };
  }
}

interface Sent {
  host: object;
  isTheJob: boolean;
}

describe('B38: a handler with a request-scoped service two levels down', () => {
  const services = [Mailer, CurrentTenant];

  it.each([
    ['on a provider', { providers: [Emails, ...services] }],
    ['on a controller', { controllers: [Emails], providers: services }],
    ['under another token', { providers: [{ provide: 'X', useClass: Emails }, ...services] }],
  ])('gets a fresh instance per job, with the job injected as REQUEST: %s', async (_how, parts) => {
    const table = await handlersOf(parts);
    const first = (await run(table, 'send_email')) as Sent;
    const second = (await run(table, 'send_email')) as Sent;
    expect(first.host).toBeInstanceOf(Emails);
    expect(second.host).not.toBe(first.host);
    expect([first.isTheJob, second.isTheJob]).toEqual([true, true]);
  });

  it('is made in its own module, where another module provides services of the same class', async () => {
    class Stranger extends CurrentTenant {}
    const imports = [
      moduleNamed('Own', { providers: [Emails, ...services] }),
      moduleNamed('Foreign', {
        providers: [Mailer, { provide: CurrentTenant, useClass: Stranger }],
      }),
    ];
    const { host } = (await run(await handlersOf({ imports }), 'send_email')) as {
      host: Emails;
    };
    expect(host.mailer.tenant).not.toBeInstanceOf(Stranger);
  });

  it('is made in its own module, where another module has the same token', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Reports {
      @JobHandler('report')
      run() {
        return 'report';
      }
    }
    const imports = [
      moduleNamed('First', { providers: [{ provide: 'HOST', useClass: Emails }, ...services] }),
      moduleNamed('Second', { providers: [{ provide: 'HOST', useClass: Reports }] }),
    ];
    const table = await handlersOf({ imports });
    expect(((await run(table, 'send_email')) as Sent).host).toBeInstanceOf(Emails);
    expect(await run(table, 'report')).toBe('report');
  });

  it('keeps apart jobs that run at the same time', async () => {
    const table = await handlersOf({ providers: [Emails, ...services] });
    const runs = Array.from({ length: 50 }, () => run(table, 'send_email') as Promise<Sent>);
    const results = await Promise.all(runs);
    expect(new Set(results.map(({ host }) => host)).size).toBe(50);
    expect(results.every(({ isTheJob }) => isTheJob)).toBe(true);
  });

  it('leaves nothing behind after 2,000 jobs', async () => {
    const app = await compile({ providers: [Emails, ...services] });
    const { run: runJob } = tableOf(app).get('send_email')!;
    const instances: WeakRef<object>[] = [];
    for (let n = 0; n < 2_000; n++) {
      const { host } = (await runJob(job('send_email'))) as Sent;
      instances.push(new WeakRef(host));
    }
    await setImmediate();
    collectGarbage();
    // The last few may still be in registers and on the stack.
    expect(instances.filter((instance) => instance.deref()).length).toBeLessThan(20);
  });

  it('fails the job, and only that one, if the instance can not be made', async () => {
    let fails = true;
    @Injectable({ scope: Scope.REQUEST })
    class Fragile {
      constructor() {
        if (fails) throw new Error('no connection');
      }
      @JobHandler('fragile')
      run() {
        return 'ran';
      }
    }
    const table = await handlersOf({ providers: [Fragile] });
    await expect(run(table, 'fragile')).rejects.toThrow('no connection');
    fails = false;
    expect(await run(table, 'fragile')).toBe('ran');
  });
});

describe('B38: guards of request scope', () => {
  it('make the host request-scoped, and get the job injected', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class TenantGuard implements CanActivate {
      constructor(@Inject(REQUEST) private readonly request: JobContext) {}
      canActivate(context: ExecutionContext) {
        return this.request === context.getArgByIndex(1) && this.request.payload === 'let in';
      }
    }
    for (const Decorate of [Injectable, Controller]) {
      @Decorate()
      class Host {
        @UseGuards(TenantGuard)
        @JobHandler('guarded')
        run() {
          return 'ran';
        }
      }
      const parts = Decorate === Controller ? { controllers: [Host] } : { providers: [Host] };
      const table = await handlersOf(parts);
      expect(await run(table, 'guarded', 'let in')).toBe('ran');
      await expect(run(table, 'guarded', 'someone else')).rejects.toMatchObject({ status: 403 });
    }
  });
});

describe('a transient guard', () => {
  it('is made for each job of a host that is made for each job', async () => {
    let guards = 0;
    const seen = new Set<number>();
    @Injectable({ scope: Scope.TRANSIENT })
    class TransientGuard implements CanActivate {
      private readonly made = ++guards;
      canActivate() {
        return seen.add(this.made).has(guards);
      }
    }
    @Injectable({ scope: Scope.REQUEST })
    class Host {
      @UseGuards(TransientGuard)
      @JobHandler('guarded')
      run() {
        return 'ran';
      }
    }
    const table = await handlersOf({ providers: [Host] });
    expect(await run(table, 'guarded')).toBe('ran');
    expect(await run(table, 'guarded')).toBe('ran');
    expect(seen.size).toBe(2);
  });
});

describe('a transient host', () => {
  it('is made for each job', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class PerJob {
      @JobHandler('transient')
      run() {
        return this;
      }
    }
    const table = await handlersOf({ providers: [PerJob] });
    const [first, second] = [await run(table, 'transient'), await run(table, 'transient')];
    expect(first).toBeInstanceOf(PerJob);
    expect(second).toBeInstanceOf(PerJob);
    expect(second).not.toBe(first);
  });
});

describe('a durable host', () => {
  /** One sub-tree per tenant, read from the job. */
  class ByTenant implements ContextIdStrategy {
    private readonly tenants = new Map<string, ContextId>();
    attach(contextId: ContextId, request: JobContext<string>) {
      const { tenant } = request.payload as { tenant: string };
      const shared = this.tenants.get(tenant) ?? ContextIdFactory.create();
      this.tenants.set(tenant, shared);
      return {
        resolve: (info: HostComponentInfo) => (info.isTreeDurable ? shared : contextId),
        payload: { tenant },
      };
    }
  }

  afterEach(() => ContextIdFactory.apply(undefined as never));

  @Injectable({ scope: Scope.REQUEST, durable: true })
  class Database {
    constructor(@Inject(REQUEST) readonly request: { tenant: string }) {}
  }
  @Injectable({ scope: Scope.REQUEST, durable: true })
  class Durable {
    constructor(readonly database: Database) {}
    @JobHandler('durable')
    run() {
      return this;
    }
  }
  @Injectable({ scope: Scope.REQUEST })
  class PerJob {
    constructor(
      readonly database: Database,
      @Inject(REQUEST) readonly job: JobContext & { tenant: string },
    ) {}
    @JobHandler('per_job')
    run() {
      return this;
    }
  }

  it('is shared as the ContextIdStrategy says, which reads the job', async () => {
    ContextIdFactory.apply(new ByTenant());
    const table = await handlersOf({ providers: [Durable, Database] });
    const tenants = ['a', 'b', 'a'];
    const hosts: Durable[] = [];
    for (const tenant of tenants) hosts.push((await run(table, 'durable', { tenant })) as Durable);
    const [a, b, again] = hosts;
    expect(again).toBe(a);
    expect(b).not.toBe(a);
    const requests = hosts.map(({ database }) => database.request);
    expect(requests).toEqual(tenants.map((tenant) => ({ tenant })));
    // It outlives the job, so it must not hold it.
    expect(requests.some((request) => 'payload' in request)).toBe(false);
  });

  it('may be a dependency of a host that is made per job', async () => {
    ContextIdFactory.apply(new ByTenant());
    const table = await handlersOf({ providers: [PerJob, Database] });
    const first = (await run(table, 'per_job', { tenant: 'a' })) as PerJob;
    const second = (await run(table, 'per_job', { tenant: 'a' })) as PerJob;
    expect(second).not.toBe(first);
    expect(second.database).toBe(first.database);
    expect(first.database.request.tenant).toBe('a');
    expect(second.job).toMatchObject({ kind: 'per_job', tenant: 'a' });
  });
});

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
}
