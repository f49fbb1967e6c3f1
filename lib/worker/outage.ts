import type { Logger } from '@nestjs/common';
import { reconnectDelay } from '../contracts/delay.js';
import { describeError } from './error-record.js';

/** Failures in a row: told of once when they begin and once when they are over. */
export class Outage {
  private failures = 0;
  private since = 0;

  constructor(private readonly logger: Logger) {}

  get isOn(): boolean {
    return this.failures > 0;
  }

  /** One more failure. Answers how long to wait before the next try, in milliseconds. */
  failed(error: unknown): number {
    this.failures += 1;
    if (this.failures === 1) {
      this.since = performance.now();
      const { message } = describeError(error);
      this.logger.warn(
        `The database can't be asked for jobs (${message}). Results are kept; trying again`,
      );
    }
    return reconnectDelay(this.failures);
  }

  /** The database has answered. */
  over(): void {
    if (this.failures === 0) return;
    const seconds = ((performance.now() - this.since) / 1000).toFixed(1);
    this.logger.log(`The database answers again after ${seconds} s`);
    this.failures = 0;
  }
}
