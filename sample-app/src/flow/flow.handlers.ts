import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { JobHandler, JobSchedule, type JobContext } from 'nestjs-pg-queue';
import { report } from './reports.js';

@Injectable()
export class FlowHandlers {
  /** Every second, once, whichever worker process it is. */
  @JobHandler('tick')
  @JobSchedule({ every: '1s' })
  tick(_payload: unknown, job: JobContext): void {
    report({ what: 'began', kind: 'tick', slot: job.slot?.getTime() ?? 0 });
  }

  /** Three at once over all processes, and one for each tenant. */
  @JobHandler('sync-tenant', { limits: [{ maxRunning: 3 }, { by: 'tenant', maxRunning: 1 }] })
  async sync({ tenant }: { tenant: string }): Promise<void> {
    report({ what: 'began', kind: 'sync-tenant', tenant });
    await sleep(50);
    report({ what: 'ended', kind: 'sync-tenant', tenant });
  }

  /** The other side takes ten calls a second. */
  @JobHandler('call-api', { limits: { rate: { max: 10, per: '1s' } } })
  call(): void {
    report({ what: 'began', kind: 'call-api' });
  }

  /** Works until somebody cancels it. */
  @JobHandler('long-export')
  async export(_payload: unknown, job: JobContext): Promise<void> {
    report({ what: 'began', kind: 'long-export' });
    try {
      await sleep(60_000, undefined, { signal: job.signal });
    } finally {
      if (job.signal.aborted) report({ what: 'aborted', kind: 'long-export' });
    }
  }

  @JobHandler('sum')
  sum({ numbers }: { numbers: number[] }): number {
    return numbers.reduce((sum, number) => sum + number, 0);
  }
}
