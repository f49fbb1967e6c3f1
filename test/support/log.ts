import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';

/** What applications logged during the test. Nest has one logger in a process, so all of them share it. */
class Log implements LoggerService {
  lines: string[] = [];

  log(...message: unknown[]): void {
    this.add('log', message);
  }

  warn(...message: unknown[]): void {
    this.add('warn', message);
  }

  error(...message: unknown[]): void {
    this.add('error', message);
  }

  debug(...message: unknown[]): void {
    this.add('debug', message);
  }

  verbose(...message: unknown[]): void {
    this.add('verbose', message);
  }

  /** All of it as one text. */
  get text(): string {
    return this.lines.join('\n');
  }

  clear(): void {
    this.lines = [];
  }

  private add(level: string, message: unknown[]): void {
    const parts = message.map((part) => (typeof part === 'string' ? part : inspect(part)));
    this.lines.push(`${level}: ${parts.join(' ')}`);
  }
}

export const log = new Log();
