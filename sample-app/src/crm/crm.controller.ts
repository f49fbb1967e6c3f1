import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { QueueService } from 'nestjs-pg-queue';
import { CreateCrmSyncDto } from './create-crm-sync.dto.js';

@Controller('crm-sync')
export class CrmController {
  constructor(private readonly queue: QueueService) {}

  @Post()
  @HttpCode(202)
  async create(@Body() { userId }: CreateCrmSyncDto): Promise<{ jobId: string }> {
    const { id } = await this.queue.enqueue('sync-crm', { userId });
    return { jobId: id };
  }
}
