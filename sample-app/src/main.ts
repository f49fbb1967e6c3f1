import { Logger, ValidationPipe } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { AppConfig } from './config/app-config.js';
import { describeRoutes } from './describe-routes.js';

// HTTP and, unless WORKER=off, a worker in the same process.
const app = await NestFactory.create(AppModule);
app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true }));
// Without this a SIGTERM ends the process in the middle of its jobs.
app.enableShutdownHooks();

const { port, worker } = app.get(AppConfig);
await app.listen(port);

new Logger('Sample').log(
  worker
    ? 'This process serves HTTP and runs jobs'
    : 'This process serves HTTP and only enqueues (WORKER=off): start dist-sample/worker.js beside it',
);
// Without the logger's decoration, since these are to be copied.
process.stdout.write(describeRoutes(await app.getUrl()));
