import { Module } from '@nestjs/common';
import { PgQueueModule } from 'nestjs-pg-queue';
import { FlowHandlers } from './flow.handlers.js';

const { DATABASE_URL, QUEUE_SCHEMA, WORKER } = process.env;

@Module({
  imports: [
    PgQueueModule.forRoot({
      connectionString: DATABASE_URL ?? '',
      ...(QUEUE_SCHEMA && { schema: QUEUE_SCHEMA }),
      ...(WORKER === 'off' && { worker: false as const }),
    }),
  ],
  providers: [FlowHandlers],
})
export class FlowModule {}
