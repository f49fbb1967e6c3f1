import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

// The same application without HTTP: it only runs jobs.
const app = await NestFactory.createApplicationContext(AppModule);
// Without this a SIGTERM ends the process in the middle of its jobs.
app.enableShutdownHooks();
