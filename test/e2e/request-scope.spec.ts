import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { JobHandler, type JobContext } from 'nestjs-pg-queue';
import { endApps, startApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';

afterEach(endApps);

@Injectable({ scope: Scope.REQUEST })
class Tenant {
  static made = 0;
  readonly number = ++Tenant.made;

  constructor(@Inject(REQUEST) readonly job: JobContext) {}
}

@Injectable()
class Repository {
  constructor(@Inject(Tenant) readonly tenant: Tenant) {}
}

@Injectable()
class Reports {
  static readonly ran: { attempt: number; number: number; id: string; requestId: string }[] = [];

  constructor(@Inject(Repository) private readonly repository: Repository) {}

  @JobHandler('report', { backoff: { type: 'fixed', delay: 1 } })
  report(_payload: unknown, job: JobContext): void {
    const { number, job: request } = this.repository.tenant;
    Reports.ran.push({ attempt: job.attempt, number, id: job.id, requestId: request.id });
    if (job.attempt === 1) throw new Error('once more');
  }
}

it('B38: a handler with a request-scoped dependency two levels down is made anew for each attempt', async () => {
  const app = await startApp({ providers: [Tenant, Repository, Reports] });
  const jobs = Array.from({ length: 3 }, () => ({ kind: 'report' }));
  for (const { id } of await app.queue.enqueueMany(jobs)) {
    await eventually(async () => expect(await app.status(id)).toBe('done'));
  }
  expect(Reports.ran).toHaveLength(6);
  expect(new Set(Reports.ran.map(({ number }) => number)).size).toBe(6);
  expect(Reports.ran.every(({ id, requestId }) => id === requestId)).toBe(true);
});
