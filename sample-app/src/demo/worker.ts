import { NestFactory } from '@nestjs/core';
import { AppModule } from '../app.module.js';
import { StoryLogger } from './story-logger.js';

// The same worker as ../worker.ts, but it tells its parent when it is ready and dies with it: at
// once while it starts, as gracefully as after any SIGTERM later.
const follow = () => process.kill(process.pid, 'SIGTERM');
process.once('disconnect', follow);
// The imports above take a while: the parent may have gone meanwhile.
if (!process.connected) follow();

const app = await NestFactory.createApplicationContext(AppModule, { logger: new StoryLogger() });
app.enableShutdownHooks();
process.send?.('ready');
