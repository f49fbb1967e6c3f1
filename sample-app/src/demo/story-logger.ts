import type { LoggerService } from '@nestjs/common';
import { say } from './say.js';

/** What Nest says of its own start is not part of the story. */
const NEST_ITSELF = new Set(['NestFactory', 'InstanceLoader', 'NestApplicationContext']);

/** Everything that the application and the queue log, one plain line each. */
export class StoryLogger implements LoggerService {
  log(message: unknown, context?: string): void {
    this.tell(message, context);
  }

  warn(message: unknown, context?: string): void {
    this.tell(message, context);
  }

  /** Nest gives the stack, if any, before the context. */
  error(message: unknown, ...stackAndContext: (string | undefined)[]): void {
    this.tell(message, stackAndContext.at(-1));
  }

  private tell(message: unknown, context = 'Nest'): void {
    if (!NEST_ITSELF.has(context)) say(`${context}: ${String(message)}`);
  }
}
