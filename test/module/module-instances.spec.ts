import { Injectable, Module, type DynamicModule, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  getQueueToken,
  InjectQueue,
  PgQueueModule,
  QueueService,
  type JobContext,
} from 'nestjs-pg-queue';
import { DATABASE_URL, endApps, freshSchema, on, sqlIn } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';

const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await endApps();
});

function forRoot(schema: string, name?: string): DynamicModule {
  return PgQueueModule.forRoot({
    connectionString: DATABASE_URL,
    schema,
    ...(name !== undefined && { name }),
  });
}

async function start(imports: (DynamicModule | Type)[], providers: Type[] = []) {
  const app = await Test.createTestingModule({ imports, providers }).setLogger(log).compile();
  closing.push(() => app.close());
  return app.init();
}

function jobsIn(schema: string): Promise<{ id: string; status: string }[]> {
  return sqlIn(schema, 'select id::text, status from pgqueue.all_jobs order by id');
}

describe('instances with a name', () => {
  it('have a schema, a service and handlers of their own', async () => {
    const [main, billing] = [freshSchema(), freshSchema()];
    const ran: string[] = [];
    const note = (where: string) => (_payload: unknown, job: JobContext) =>
      ran.push(`${where} ${job.kind}`);
    @Injectable()
    class Invoices {
      constructor(
        readonly queue: QueueService,
        @InjectQueue() readonly same: QueueService,
        @InjectQueue('billing') readonly billing: QueueService,
      ) {}
    }
    const app = await start(
      [forRoot(main), forRoot(billing, 'billing')],
      [
        Invoices,
        // One kind in both: they have nothing to do with each other.
        on('sum', note('main')),
        on('sum', note('billing'), { instance: 'billing' }),
      ],
    );
    const invoices = app.get(Invoices);
    expect(invoices.same).toBe(invoices.queue);
    expect(invoices.billing).not.toBe(invoices.queue);
    expect(app.get(getQueueToken('billing'))).toBe(invoices.billing);
    await invoices.queue.enqueue('sum', {});
    await eventually(() => expect(ran).toEqual(['main sum']));
    await invoices.billing.enqueue('sum', {});
    await eventually(() => expect(ran).toEqual(['main sum', 'billing sum']));
    await eventually(async () => {
      expect(await jobsIn(main)).toEqual([{ id: '1', status: 'done' }]);
      expect(await jobsIn(billing)).toEqual([{ id: '1', status: 'done' }]);
    });
    expect(log.text).toContain('PgQueue billing');
  });

  it('may all have one: then QueueService itself can not be injected', async () => {
    @Injectable()
    class Wants {
      constructor(readonly queue: QueueService) {}
    }
    await expect(start([forRoot(freshSchema(), 'only')], [Wants])).rejects.toThrow(/QueueService/);
    const app = await start([forRoot(freshSchema(), 'only')]);
    expect(app.get(getQueueToken('only'))).toBeInstanceOf(QueueService);
  });

  it('a handler of an instance that there is not fails the start, naming both', async () => {
    const lost = on('kind', () => {}, { instance: 'biling' });
    await expect(start([forRoot(freshSchema(), 'billing')], [lost])).rejects.toThrow(
      /Handler\.handle.*'biling'.*'billing'/s,
    );
  });

  it('a handler without an instance fails the start where every instance has a name', async () => {
    await expect(
      start([forRoot(freshSchema(), 'billing')], [on('kind', () => {})]),
    ).rejects.toThrow(/Handler\.handle.*without a name/s);
  });
});

describe('B39: registered twice', () => {
  it('a second forRoot of the same name fails the start, in two modules or in one', async () => {
    @Module({ imports: [forRoot(freshSchema())] })
    class One {}
    @Module({ imports: [forRoot(freshSchema())] })
    class Two {}
    const error = {
      code: 'DUPLICATE_INSTANCE',
      message: expect.stringContaining('without a name'),
    };
    await expect(start([One, Two])).rejects.toMatchObject(error);
    const named = [forRoot(freshSchema(), 'billing'), forRoot(freshSchema(), 'billing')];
    await expect(start(named)).rejects.toMatchObject({
      code: 'DUPLICATE_INSTANCE',
      message: expect.stringContaining("'billing'"),
    });
  });

  it('one dynamic module that is imported in two places is one', async () => {
    const schema = freshSchema();
    const queue = forRoot(schema);
    @Module({ imports: [queue] })
    class One {}
    @Module({ imports: [queue] })
    class Two {}
    const ran: string[] = [];
    const app = await start([One, Two], [on('kind', (_payload, job) => ran.push(job.id))]);
    const { id } = await app.get(QueueService).enqueue('kind', {});
    await eventually(async () => expect(await jobsIn(schema)).toEqual([{ id, status: 'done' }]));
    expect(ran).toEqual([id]);
    expect(await sqlIn(schema, 'select id from pgqueue.workers')).toHaveLength(1);
  });

  it('an instance under two tokens runs each job once', async () => {
    const schema = freshSchema();
    const ran: string[] = [];
    const Handler = on('kind', (_payload, job) => ran.push(job.id));
    @Module({ providers: [Handler, { provide: 'ALIAS', useExisting: Handler }] })
    class Aliased {}
    const app = await start([forRoot(schema), Aliased]);
    const { id } = await app.get(QueueService).enqueue('kind', {});
    await eventually(async () => expect(await jobsIn(schema)).toEqual([{ id, status: 'done' }]));
    expect(ran).toEqual([id]);
  });

  it('two owners of a kind fail the start, naming both, and nothing is begun', async () => {
    const schema = freshSchema();
    class Mails extends on('send', () => {}) {}
    class Letters extends on('send', () => {}) {}
    await expect(start([forRoot(schema)], [Mails, Letters])).rejects.toMatchObject({
      code: 'DUPLICATE_HANDLER',
      message: expect.stringMatching(/Mails\.handle.*Letters\.handle/),
    });
    const [row] = await sqlIn(schema, `select to_regnamespace($1) as schema`, [schema]);
    expect(row.schema).toBeNull();
  });
});
