import { setTimeout as wait } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { JobHandler, PgQueueError, QueueService, type JobContext } from 'nestjs-pg-queue';
import { Journal } from './journal.js';
import { report } from './report.js';
import type { Script, Step } from './settings.js';

export const NAME = 'name of this process';

@Injectable()
export class Handlers {
  constructor(
    @Inject(NAME) private readonly name: string,
    private readonly queue: QueueService,
    private readonly journal: Journal,
  ) {}

  /** Takes as long as its payload says, no time by default. */
  @JobHandler('quick')
  async quick({ ms = 0 }: { ms?: number }, job: JobContext): Promise<string> {
    await this.told(job, () => wait(ms));
    return this.name;
  }

  /** Fails as often as its payload says. */
  @JobHandler('flaky', { backoff: { type: 'fixed', delay: '50ms' } })
  async flaky({ failures }: { failures: number }, job: JobContext): Promise<void> {
    await this.told(job, async () => {
      if (job.attempt <= failures) throw new Error(`Attempt ${job.attempt} fails`);
    });
  }

  @JobHandler('scripted', { backoff: { type: 'fixed', delay: '100ms' } })
  async scripted(script: Script, job: JobContext): Promise<string> {
    await this.told(job, async () => {
      for (const step of script[this.name] ?? script['*'] ?? []) await this.take(step);
    });
    return this.name;
  }

  private async told(job: JobContext, work: () => Promise<void>): Promise<void> {
    const { id, kind, attempt, signal } = job;
    report({ event: 'started', id, kind, attempt });
    signal.addEventListener('abort', () => {
      const { code } = signal.reason as PgQueueError;
      report({ event: 'aborted', id, code });
    });
    try {
      await work();
    } finally {
      report({ event: 'finished', id });
    }
  }

  private async take([action, value]: Step): Promise<void> {
    switch (action) {
      case 'block':
        return block(value);
      case 'wait':
        await wait(value);
        return;
      case 'exit':
        return process.exit(value);
      case 'throw':
        throw new Error(value);
      case 'enqueue':
        await this.queue.enqueue(value);
        return;
      case 'use journal':
        return this.journal.use();
    }
  }
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}
