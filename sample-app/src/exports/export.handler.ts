import { Injectable, UseInterceptors } from '@nestjs/common';
import { JobHandler, type JobContext, type JobKinds } from 'nestjs-pg-queue';
import { join } from 'node:path';
import { AppConfig } from '../config/app-config.js';
import { LogJobs } from '../jobs/log-jobs.interceptor.js';
import { Users } from '../users/users.repository.js';
import { writeCsv } from './write-csv.js';

declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'generate-export': { table: 'users' };
  }
}

/** Kept as the job's result, which `GET /exports/:id` shows. */
export interface ExportResult {
  readonly file: string;
  readonly rows: number;
}

@Injectable()
@UseInterceptors(LogJobs)
export class ExportHandler {
  constructor(
    private readonly config: AppConfig,
    private readonly users: Users,
  ) {}

  /** The file is named after the job, so a second run replaces the first one's. */
  @JobHandler('generate-export', { concurrency: 2, timeout: '10m' })
  async export({ table }: JobKinds['generate-export'], job: JobContext): Promise<ExportResult> {
    const file = join(this.config.exportDir, `${table}-${job.id}.csv`);
    const rows = await writeCsv(file, ['id', 'email', 'name'], this.users.all(), job.signal);
    return { file, rows };
  }
}
