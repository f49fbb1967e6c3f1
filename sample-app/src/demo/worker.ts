import { NestFactory } from '@nestjs/core';
import { AppModule } from '../app.module.js';
import { StoryLogger } from './story-logger.js';

// The same worker as ../worker.ts, but it tells its parent when it is ready and dies with it.
const app = await NestFactory.createApplicationContext(AppModule, { logger: new StoryLogger() });
app.enableShutdownHooks();
process.once('disconnect', () => void app.close().finally(() => process.exit()));
process.send?.('ready');
