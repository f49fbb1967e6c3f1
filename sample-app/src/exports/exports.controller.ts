import { Controller, Get, HttpCode, NotFoundException, Param, Post } from '@nestjs/common';
import { QueueService } from 'nestjs-pg-queue';
import { JobIdParam } from '../jobs/job-id.param.js';
import { jobView, type JobView } from '../jobs/job-view.js';

@Controller('exports')
export class ExportsController {
  constructor(private readonly queue: QueueService) {}

  /** One pending export is enough: whoever asks meanwhile gets the same job. */
  @Post()
  @HttpCode(202)
  async create(): Promise<{ jobId: string }> {
    const { id } = await this.queue.enqueue(
      'generate-export',
      { table: 'users' },
      { dedupe: 'users' },
    );
    return { jobId: id };
  }

  @Get(':id')
  async status(@Param() { id }: JobIdParam): Promise<JobView> {
    const job = await this.queue.get(id);
    if (job?.kind !== 'generate-export') throw new NotFoundException(`There is no export ${id}`);
    return jobView(job);
  }
}
