import { setImmediate } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { CancelJob, JobHandler, QueueService, type JobContext } from 'nestjs-pg-queue';
import { endApps, startApp, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

// The examples of docs/control.md and docs/at-least-once.md, with the tables and services that they speak of.

let app: TestApp;
let credits = '';
const files: number[] = [];

/** Pages without end. */
async function* pages(): AsyncGenerator<number> {
  for (let page = 0; ; page += 1) {
    await setImmediate();
    yield page;
  }
}

@Injectable()
class Accounts {
  constructor(private readonly queue: QueueService) {}

  @JobHandler('export')
  async export(_payload: unknown, job: JobContext): Promise<void> {
    for await (const page of pages()) {
      job.signal.throwIfAborted();
      files.push(page);
    }
  }

  @JobHandler('credit')
  async credit({ userId, amount }: Credit, job: JobContext): Promise<void> {
    await job.transaction(async (tx) => {
      await tx.query(`insert into ${credits} (user_id, amount) values ($1, $2)`, [userId, amount]);
      await this.queue.enqueue('send_receipt', { userId, amount }, { tx });
    });
  }

  @JobHandler('credit_too', { transactional: true })
  async creditToo({ userId, amount }: Credit, job: JobContext): Promise<void> {
    const { tx } = job;
    await tx.query(`insert into ${credits} (user_id, amount) values ($1, $2)`, [userId, amount]);
    await this.queue.enqueue('send_receipt', { userId, amount }, { tx });
  }

  @JobHandler('send_receipt')
  async sendReceipt(): Promise<void> {}

  @JobHandler('remind', {
    stillNeeded: (_payload, job) => Date.now() - job.createdAt.getTime() < 86_400_000,
  })
  async remind({ cartId }: { cartId: string }): Promise<void> {
    if (cartId === 'gone') throw new CancelJob('the cart is gone');
  }
}

interface Credit {
  readonly userId: string;
  readonly amount: number;
}

beforeAll(async () => {
  app = await startApp({ providers: [Accounts] });
  credits = `"${app.schema}".credits`;
  await app.sql('create table pgqueue.credits (user_id text, amount int)');
});
afterAll(endApps);

function reaches(id: string, status: string): Promise<void> {
  return eventually(async () => expect(await app.status(id)).toBe(status));
}

test('a loop that asks its signal stops when the job is cancelled', async () => {
  const { id } = await app.queue.enqueue('export', {});
  await eventually(() => expect(files.length).toBeGreaterThan(3));
  expect(await app.queue.cancel(id)).toBe('requested');
  await reaches(id, 'cancelled');
  const written = files.length;
  await app.queue.counts();
  expect(files).toHaveLength(written);
});

test.each(['credit', 'credit_too'])(
  '%s: the credit, the receipt and the end of the job are one',
  async (kind) => {
    await app.sql('truncate pgqueue.credits');
    const { id } = await app.queue.enqueue(kind, { userId: '7', amount: 5 });
    await reaches(id, 'done');
    expect(await app.sql('select user_id, amount from pgqueue.credits')).toEqual([
      { user_id: '7', amount: 5 },
    ]);
    await eventually(async () => {
      const receipts = await app.sql(
        `select payload from pgqueue.all_jobs where kind = 'send_receipt' and id > $1`,
        [id],
      );
      expect(receipts).toEqual([{ payload: { userId: '7', amount: 5 } }]);
    });
  },
);

test('a reminder that is not needed any more is cancelled, by the rule or by the handler', async () => {
  const { id } = await app.queue.enqueue('remind', { cartId: '1' });
  const { id: gone } = await app.queue.enqueue('remind', { cartId: 'gone' });
  const { id: old } = await app.queue.enqueue('remind', { cartId: '1' }, { delay: '1h' });
  await app.sql(
    `update pgqueue.jobs set created_at = created_at - interval '2 days' where id = $1`,
    [old],
  );
  await app.sql('update pgqueue.jobs set run_at = now() where id = $1', [old]);
  await reaches(id, 'done');
  await reaches(gone, 'cancelled');
  await reaches(old, 'cancelled');
});
