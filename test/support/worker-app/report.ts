import type { LoggerService } from '@nestjs/common';
import type { News } from './settings.js';

/** Tells the test. A pipe is written synchronously, so what was told survives a SIGKILL. */
export function report(news: News): void {
  const at = performance.timeOrigin + performance.now();
  process.stdout.write(`${JSON.stringify({ at, ...news })}\n`);
}

/** Nest's logger, as reports. */
export class ReportingLogger implements LoggerService {
  log(message: unknown): void {
    report({ event: 'log', level: 'log', text: String(message) });
  }

  warn(message: unknown): void {
    report({ event: 'log', level: 'warn', text: String(message) });
  }

  error(message: unknown): void {
    report({ event: 'log', level: 'error', text: String(message) });
  }
}
