import type { Logger } from '@nestjs/common';
import type { Database } from '../store/database.js';
import { Listener } from '../store/listener.js';
import { describeError } from './error-record.js';

/** A session that is lost again and again (an idle time-out of the server, say) is told of this often. */
const TELL_EVERY_MS = 60_000;

/** Rings when a notification says that jobs may have become due in a queue that is served here. */
export class Doorbell {
  private readonly listener: Listener;
  private toldAt = -Infinity;

  constructor(
    database: Database,
    private readonly serves: (queue: string) => boolean,
    private readonly ring: () => void,
    private readonly logger: Logger,
  ) {
    this.listener = new Listener(database, {
      ring: (queue) => {
        if (this.serves(queue)) this.ring();
      },
      up: (isBack) => this.up(isBack),
      down: (error) => this.down(error),
    });
  }

  start(): void {
    this.listener.start();
  }

  stop(): Promise<void> {
    return this.listener.stop();
  }

  private up(isBack: boolean): void {
    if (isBack) this.logger.debug('The listener is back');
    this.ring();
  }

  private down(error: unknown): void {
    const { message } = describeError(error);
    const level = performance.now() - this.toldAt > TELL_EVERY_MS ? 'warn' : 'debug';
    if (level === 'warn') this.toldAt = performance.now();
    this.logger[level](
      `The listener lost its connection (${message}): polling until it is back, which it tries by itself`,
    );
  }
}
