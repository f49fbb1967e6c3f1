import type { Logger } from '@nestjs/common';
import { startTimer } from '../contracts/timer.js';
import type { JobStore } from '../store/job-store.js';
import type { QueueSettings } from '../store/statements/queues.js';
import { describeError } from './error-record.js';

/** After a failure it is tried again this soon. */
const AGAIN_MS = 500;
const LIMIT_MS = 5_000;

/**
 * Knows what is paused and how many slots queues have: read at the start, when somebody says that it has
 * changed, and at an interval anyway, since a notification may be lost.
 */
export class SettingsWatch {
  private reading: Promise<void> | undefined;
  private mustReadAgain = false;
  private isStopped = false;
  private lastText: string | undefined;
  private stopTimer: () => void = () => {};

  /**
   * @param interval milliseconds
   * @param told hears what was read, and whether it differs from what was read before, if anything was. What was
   *   committed before a call of {@link read} is in what it hears after that
   */
  constructor(
    private readonly store: Pick<JobStore, 'queueSettings'>,
    private readonly queues: readonly string[],
    private readonly interval: number,
    private readonly told: (settings: QueueSettings, haveChanged: boolean) => void,
    private readonly logger: Logger,
  ) {}

  /** Reads now; a read that is on its way may be older, so another one follows it. */
  read(): void {
    if (this.isStopped) return;
    this.mustReadAgain = true;
    this.reading ??= this.readAll().finally(() => {
      this.reading = undefined;
    });
  }

  /** Resolves when the read that is on its way has ended. Nothing is told after that. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.stopTimer();
    await this.reading;
  }

  private async readAll(): Promise<void> {
    this.stopTimer();
    let next = this.interval;
    while (this.mustReadAgain && !this.isStopped) {
      this.mustReadAgain = false;
      try {
        const settings = await this.store.queueSettings(this.queues, LIMIT_MS);
        if (this.isStopped) return;
        next = this.interval;
        const text = JSON.stringify(settings);
        const haveChanged = this.lastText !== undefined && this.lastText !== text;
        this.lastText = text;
        this.told(settings, haveChanged);
      } catch (error) {
        // Of an outage the exchange loop tells, once.
        const { message } = describeError(error);
        this.logger.debug(`What is paused could not be read (${message}); it is tried again`);
        next = Math.min(AGAIN_MS, this.interval);
      }
    }
    if (!this.isStopped) this.stopTimer = startTimer(next, () => this.read());
  }
}
