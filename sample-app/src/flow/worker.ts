import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { StoryLogger } from '../demo/story-logger.js';
import { FlowModule } from './flow.module.js';

// However the demo ends, this process does not outlive it.
process.on('disconnect', () => process.exit());

const app = await NestFactory.createApplicationContext(FlowModule, { logger: new StoryLogger() });
app.enableShutdownHooks([], { useProcessExit: true });
process.send?.('ready');
