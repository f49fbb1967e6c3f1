import { Controller, Get, NotFoundException, Param } from '@nestjs/common';
import { QueueService } from 'nestjs-pg-queue';
import { JobIdParam } from './job-id.param.js';
import { jobView, type JobView } from './job-view.js';

@Controller('jobs')
export class JobsController {
  constructor(private readonly queue: QueueService) {}

  @Get()
  counts() {
    return this.queue.counts();
  }

  @Get(':id')
  async status(@Param() { id }: JobIdParam): Promise<JobView> {
    const job = await this.queue.get(id);
    if (!job) throw new NotFoundException(`There is no job ${id}`);
    return jobView(job);
  }
}
