import { Module } from '@nestjs/common';
import { PgQueueModule } from 'nestjs-pg-queue';
import { Pool } from 'pg';
import { AppConfig } from './config/app-config.js';
import { ConfigModule } from './config/config.module.js';
import { CrmModule } from './crm/crm.module.js';
import { DatabaseModule } from './database/database.module.js';
import { ExportsModule } from './exports/exports.module.js';
import { JobsModule } from './jobs/jobs.module.js';
import { SignupsModule } from './signups/signups.module.js';
import { WebhooksModule } from './webhooks/webhooks.module.js';

@Module({
  imports: [
    ConfigModule,
    DatabaseModule,
    SignupsModule,
    WebhooksModule,
    ExportsModule,
    CrmModule,
    JobsModule,
    PgQueueModule.forRootAsync({
      inject: [AppConfig, Pool],
      useFactory: (config: AppConfig, pool: Pool) => ({
        pool,
        schema: config.queueSchema,
        worker: config.worker && {
          concurrency: config.concurrency,
          ...(config.workerName && { name: config.workerName }),
        },
      }),
    }),
  ],
})
export class AppModule {}
