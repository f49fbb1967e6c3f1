import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { PgQueueModule, QueueService } from 'nestjs-pg-queue';
import { Handlers, NAME } from './handlers.js';
import { Journal } from './journal.js';
import { report, ReportingLogger } from './report.js';
import type { Command, WorkerAppSettings } from './settings.js';

// However the test ends, this process does not outlive it.
process.on('disconnect', () => process.exit());
process.channel?.unref();

process.on('uncaughtExceptionMonitor', (error) => {
  report({ event: 'fault', text: String(error) });
});

const settings = JSON.parse(process.env['WORKER_APP'] ?? '') as WorkerAppSettings;
const { url, schema, name, hooks = true, ...worker } = settings;

@Module({
  imports: [PgQueueModule.forRoot({ connectionString: url, schema, worker: { name, ...worker } })],
  providers: [Handlers, Journal, { provide: NAME, useValue: name }],
})
class WorkerAppModule {}

const app = await NestFactory.createApplicationContext(WorkerAppModule, {
  logger: new ReportingLogger(),
});
if (hooks) app.enableShutdownHooks([], { useProcessExit: true });

process.on('message', ({ enqueue, ...options }: Command) => {
  void app
    .get(QueueService)
    .enqueue(enqueue, {}, options)
    .then(({ id }) => report({ event: 'enqueued', id }));
});
process.channel?.unref();
report({ event: 'ready' });
