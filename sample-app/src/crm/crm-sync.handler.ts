import { Injectable, UseInterceptors } from '@nestjs/common';
import { CancelJob, JobHandler, type JobContext, type JobKinds } from 'nestjs-pg-queue';
import { Endpoints } from '../endpoints/endpoints.js';
import { expectSuccess } from '../endpoints/response-error.js';
import { LogJobs } from '../jobs/log-jobs.interceptor.js';
import { Users } from '../users/users.repository.js';

declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'sync-crm': { userId: string };
  }
}

@Injectable()
@UseInterceptors(LogJobs)
export class CrmSyncHandler {
  constructor(
    private readonly endpoints: Endpoints,
    private readonly users: Users,
  ) {}

  /**
   * The CRM answers in an instant or not at all, so a short timeout and a quick second attempt serve
   * better than patience. PUT, not POST: writing the same contact twice is harmless.
   */
  @JobHandler('sync-crm', {
    timeout: '1s',
    backoff: { type: 'exponential', base: '1s', max: '5m' },
  })
  async sync({ userId }: JobKinds['sync-crm'], job: JobContext): Promise<void> {
    const user = await this.users.find(userId);
    if (!user) throw new CancelJob('The user is gone');
    const response = await fetch(`${await this.endpoints.crmUrl()}/contacts/${user.id}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: user.email, name: user.name }),
      signal: job.signal,
    });
    await expectSuccess('The CRM', response);
  }
}
