import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { QueueService } from 'nestjs-pg-queue';
import { CreateWebhookDto } from './create-webhook.dto.js';

@Controller('webhooks')
export class WebhooksController {
  constructor(private readonly queue: QueueService) {}

  @Post()
  @HttpCode(202)
  async create(@Body() { event, data }: CreateWebhookDto): Promise<{ jobId: string }> {
    const { id } = await this.queue.enqueue('deliver-webhook', { event, data });
    return { jobId: id };
  }
}
