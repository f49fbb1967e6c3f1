import { Injectable, Module, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { InjectQueue, PgQueueModule, QueueService, type PgQueueOptions } from 'nestjs-pg-queue';
import { DATABASE_URL, endApps, freshSchema, on, sqlIn, startApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';

type AsyncOptions = Parameters<typeof PgQueueModule.forRootAsync>[0];

let schema: string;
const closing: (() => Promise<void>)[] = [];

beforeEach(() => {
  schema = freshSchema();
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await endApps();
});

@Injectable()
class Settings {
  readonly schema = schema;

  createPgQueueOptions(): PgQueueOptions {
    return { connectionString: DATABASE_URL, schema: this.schema };
  }
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

async function start(
  imports: NonNullable<Parameters<typeof Test.createTestingModule>[0]['imports']>,
  providers: Type[] = [],
) {
  const app = await Test.createTestingModule({ imports, providers }).setLogger(log).compile();
  closing.push(() => app.close());
  return app.init();
}

describe('forRootAsync', () => {
  it.each<[string, () => AsyncOptions]>([
    ['useFactory', () => ({ useFactory: () => new Settings().createPgQueueOptions() })],
    [
      'an asynchronous useFactory',
      () => ({ useFactory: async () => new Settings().createPgQueueOptions() }),
    ],
    [
      'useFactory with inject and imports',
      () => ({
        imports: [SettingsModule],
        inject: [Settings],
        useFactory: (settings: Settings) => settings.createPgQueueOptions(),
      }),
    ],
    [
      'useFactory with extraProviders',
      () => ({
        extraProviders: [{ provide: 'SCHEMA', useFactory: () => schema }],
        inject: ['SCHEMA'],
        useFactory: (injected: string) => ({ connectionString: DATABASE_URL, schema: injected }),
      }),
    ],
    ['useClass', () => ({ useClass: Settings })],
    ['useExisting', () => ({ imports: [SettingsModule], useExisting: Settings })],
  ])('takes its options from %s', async (_how, options) => {
    const ran: string[] = [];
    const app = await start(
      [PgQueueModule.forRootAsync(options())],
      [on('kind', (_payload, job) => ran.push(job.id))],
    );
    const { id } = await app.get(QueueService).enqueue('kind', {});
    await eventually(() => expect(ran).toEqual([id]));
    expect(await sqlIn(schema, 'select id::text from pgqueue.all_jobs')).toEqual([{ id }]);
  });

  it('fails the start, by name, when the factory answers something wrong', async () => {
    const wrong = (options: unknown) =>
      start([PgQueueModule.forRootAsync({ useFactory: () => options as PgQueueOptions })]);
    await expect(wrong({ connectionString: DATABASE_URL, schema: '' })).rejects.toThrow('`schema`');
    await expect(wrong(undefined)).rejects.toThrow('`options`');
    await expect(wrong({})).rejects.toThrow('`connectionString`');
  });

  it('fails the start with what the factory threw', async () => {
    const module = PgQueueModule.forRootAsync({
      useFactory: () => Promise.reject(new Error('no settings')),
    });
    await expect(start([module])).rejects.toThrow('no settings');
  });
});

describe('isGlobal', () => {
  @Injectable()
  class Feature {
    constructor(@InjectQueue() readonly queue: QueueService) {}
  }
  @Module({ providers: [Feature] })
  class FeatureModule {}

  it('is true by default: modules that do not import it inject the service', async () => {
    const app = await start([
      PgQueueModule.forRoot({ connectionString: DATABASE_URL, schema, worker: false }),
      FeatureModule,
    ]);
    expect(app.get(Feature, { strict: false }).queue).toBe(app.get(QueueService));
  });

  it('false: only modules that import it', async () => {
    const options = {
      connectionString: DATABASE_URL,
      schema,
      worker: false,
      isGlobal: false,
    } as const;
    const queue = PgQueueModule.forRoot(options);
    await expect(start([queue, FeatureModule])).rejects.toThrow(/Feature/);
    @Module({ imports: [queue], providers: [Feature] })
    class ImportsIt {}
    const app = await start([ImportsIt]);
    expect(app.get(Feature, { strict: false }).queue).toBeInstanceOf(QueueService);
  });

  it('false: handlers of other modules are found all the same', async () => {
    const ran: string[] = [];
    @Module({ providers: [on('kind', (_payload, job) => ran.push(job.id))] })
    class Elsewhere {}
    const app = await start([
      PgQueueModule.forRoot({ connectionString: DATABASE_URL, schema, isGlobal: false }),
      Elsewhere,
    ]);
    const { id } = await app.get(QueueService).enqueue('kind', {});
    await eventually(() => expect(ran).toEqual([id]));
  });
});

describe('worker: false', () => {
  it('enqueues, works on nothing, and says so', async () => {
    const app = await startApp({ providers: [on('kind', () => {})] }, { worker: false });
    await app.queue.enqueue('kind', {});
    expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
    expect(log.text).toContain('worker: false');
    expect(await app.queue.counts()).toMatchObject({ queued: 1 });
  });

  it('takes the defaults of a handler for its enqueues', async () => {
    const handler = on('mail', () => {}, { queue: 'mail', maxAttempts: 7 });
    const app = await startApp({ providers: [handler] }, { worker: false });
    const { id } = await app.queue.enqueue('mail', {});
    expect(await app.queue.get(id)).toMatchObject({ queue: 'mail', maxAttempts: 7 });
  });
});

describe('the log', () => {
  it('says in one line what the process works on', async () => {
    const app = await startApp({ providers: [on('send_email', () => {}), on('sync', () => {})] });
    await eventually(async () =>
      expect(await app.sql('select id from pgqueue.workers')).toHaveLength(1),
    );
    const lines = log.lines.filter((line) => line.includes('Working on'));
    expect(lines).toEqual([
      expect.stringMatching(/^log: Working on 2 kinds in the queues default \(schema /),
    ]);
  });

  it('names no secret: neither connection strings nor payloads', async () => {
    const app = await startApp(
      {
        providers: [
          on('fails', () => Promise.reject(new Error('broken')), { maxAttempts: 1 }),
          on('works', () => ({ token: 'hunter2' })),
        ],
      },
      { worker: { pollInterval: 50 } },
    );
    const ids = [
      await app.queue.enqueue('fails', { password: 'hunter2' }),
      await app.queue.enqueue('works', { password: 'hunter2' }, { meta: { token: 'hunter2' } }),
    ];
    for (const { id } of ids) {
      await eventually(async () => expect(await app.status(id)).toMatch(/failed|done/));
    }
    await app.close();
    const { password } = new URL(DATABASE_URL);
    expect(log.text).toContain('broken');
    expect(log.text).not.toContain('hunter2');
    expect(log.text).not.toContain('postgres://');
    expect(log.text).not.toContain('postgresql://');
    expect(log.text).not.toContain(`:${password}@`);
  });

  it.each([
    ['a wrong password', 'postgres://nobody:hunter2@HOST/postgres'],
    ['a database that there is not', 'postgres://USER:PASSWORD@HOST/hunter2-not-there'],
  ])('nor does the error of %s', async (_what, template) => {
    const url = new URL(DATABASE_URL);
    const connectionString = template
      .replace('HOST', url.host)
      .replace('USER', url.username)
      .replace('PASSWORD', url.password);
    const outcome = start([PgQueueModule.forRoot({ connectionString, schema })]);
    const error = await outcome.then(
      () => new Error('It started'),
      (error: unknown) => error as Error,
    );
    expect(error.message).toMatch(/password authentication failed|does not exist/);
    for (const text of [error.message, String(error.stack), log.text]) {
      expect(text).not.toContain(':hunter2@');
      expect(text).not.toContain(connectionString);
    }
  });
});
