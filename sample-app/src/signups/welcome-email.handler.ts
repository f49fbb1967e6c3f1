import { Injectable, UseInterceptors } from '@nestjs/common';
import { CancelJob, JobHandler, type JobContext, type JobKinds } from 'nestjs-pg-queue';
import { LogJobs } from '../jobs/log-jobs.interceptor.js';
import { Users } from '../users/users.repository.js';
import { Mailer } from './mailer.js';

declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'send-email': { userId: string };
  }
}

@Injectable()
@UseInterceptors(LogJobs)
export class WelcomeEmailHandler {
  constructor(
    private readonly users: Users,
    private readonly mailer: Mailer,
  ) {}

  @JobHandler('send-email', { timeout: '30s' })
  async send({ userId }: JobKinds['send-email'], job: JobContext): Promise<void> {
    const user = await this.users.find(userId);
    if (!user) throw new CancelJob('The user is gone');
    await this.mailer.send({
      to: user.email,
      subject: `Welcome, ${user.name}`,
      text: `Hello ${user.name},\n\nyour account is ready.\n`,
      idempotencyKey: job.idempotencyKey,
      signal: job.signal,
    });
  }
}
