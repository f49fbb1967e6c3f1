import { Injectable, UseInterceptors } from '@nestjs/common';
import { JobHandler, type JobContext, type JobKinds } from 'nestjs-pg-queue';
import { Endpoints } from '../endpoints/endpoints.js';
import { expectSuccess } from '../endpoints/response-error.js';
import { LogJobs } from '../jobs/log-jobs.interceptor.js';

declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'deliver-webhook': { event: string; data: Record<string, unknown> };
  }
}

@Injectable()
@UseInterceptors(LogJobs)
export class WebhookDeliveryHandler {
  constructor(private readonly endpoints: Endpoints) {}

  /** A receiver that is down for an afternoon still gets its webhook: about six hours of attempts. */
  @JobHandler('deliver-webhook', {
    timeout: '10s',
    maxAttempts: 15,
    backoff: { type: 'exponential', base: '5s', max: '1h' },
  })
  async deliver(payload: JobKinds['deliver-webhook'], job: JobContext): Promise<void> {
    const response = await fetch(await this.endpoints.webhookUrl(), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': job.idempotencyKey },
      body: JSON.stringify(payload),
      signal: job.signal,
    });
    await expectSuccess('The webhook receiver', response);
  }
}
