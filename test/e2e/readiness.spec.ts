import {
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { JobHandler, QueueService } from 'nestjs-pg-queue';
import { compileApp, endApps, queueModule, sqlIn, startApp, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';
import { signal } from '../support/signal.js';

afterEach(endApps);

/** A module that takes its time to start: its hooks wait for the test. */
const starting = { init: signal(), bootstrap: signal(), reached: signal() };

@Injectable()
class Slow implements OnModuleInit, OnApplicationBootstrap {
  ready = false;

  async onModuleInit(): Promise<void> {
    await starting.init.happened;
  }

  async onApplicationBootstrap(): Promise<void> {
    starting.reached.fire();
    await starting.bootstrap.happened;
    this.ready = true;
  }
}

@Module({ providers: [Slow], exports: [Slow] })
class SlowModule {}

@Injectable()
class SeesSlow {
  static readonly seen: boolean[] = [];

  constructor(@Inject(Slow) private readonly slow: Slow) {}

  @JobHandler('look')
  look(): void {
    SeesSlow.seen.push(this.slow.ready);
  }
}

describe('B42: no job begins before the application is ready', () => {
  beforeEach(() => {
    SeesSlow.seen.length = 0;
    Object.assign(starting, { init: signal(), bootstrap: signal(), reached: signal() });
  });

  /** Three jobs that are due before anybody starts. */
  async function schemaWithJobs(): Promise<string> {
    const web = await startWith([], { worker: false });
    await web.queue.enqueueMany([1, 2, 3].map((payload) => ({ kind: 'look', payload })));
    return web.schema;
  }

  async function letStart(app: Promise<unknown>, schema: string): Promise<void> {
    starting.init.fire();
    await starting.reached.happened;
    // Long enough for a worker that had begun: it would have registered, and claimed.
    for (let roundTrips = 0; roundTrips < 20; roundTrips++) {
      expect(await sqlIn(schema, 'select id from pgqueue.workers')).toEqual([]);
    }
    expect(SeesSlow.seen).toEqual([]);
    starting.bootstrap.fire();
    await app;
    await eventually(() => expect(SeesSlow.seen).toEqual([true, true, true]));
  }

  it('whatever other modules wait for in their hooks', async () => {
    const schema = await schemaWithJobs();
    const app = await compileApp({ imports: [SlowModule], providers: [SeesSlow] }, { schema });
    await letStart(app.module.init(), schema);
  });

  it('wherever the queue’s module stands in the list of imports', async () => {
    const schema = await schemaWithJobs();
    const parts = { imports: [queueModule({ schema }), SlowModule], providers: [SeesSlow] };
    @Module(parts)
    class QueueFirst {}
    const starting = NestFactory.createApplicationContext(QueueFirst, { logger: log });
    await letStart(starting, schema);
    await (await starting).close();
  });

  it('in a standalone application context', async () => {
    const schema = await schemaWithJobs();
    @Module({ imports: [SlowModule, queueModule({ schema })], providers: [SeesSlow] })
    class Standalone {}
    const starting = NestFactory.createApplicationContext(Standalone, { logger: log });
    await letStart(starting, schema);
    await (await starting).close();
  });
});

it('enqueue works in every hook, from the first to the last', async () => {
  const ids: string[] = [];
  @Injectable()
  class Eager
    implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, OnApplicationShutdown
  {
    constructor(@Inject(QueueService) private readonly queue: QueueService) {}
    onModuleInit = () => this.enqueue();
    onApplicationBootstrap = () => this.enqueue();
    onModuleDestroy = () => this.enqueue();
    beforeApplicationShutdown = () => this.enqueue();
    onApplicationShutdown = () => this.enqueue();
    private async enqueue(): Promise<void> {
      ids.push((await this.queue.enqueue('kind', {})).id);
    }
  }
  const app = await startApp({ providers: [Eager] }, { worker: false });
  await app.close();
  expect(ids).toHaveLength(5);
  const [row] = await app.sql('select count(*)::int as n from pgqueue.jobs');
  expect(row.n).toBe(5);
});
