import type { Logger } from '@nestjs/common';
import { startTimer } from '../contracts/timer.js';
import { isConnectionUnusable } from '../store/errors.js';
import type { JobStore } from '../store/job-store.js';
import type { AttemptKey, ProgressValue } from '../store/statements/control.js';
import { describeError } from './error-record.js';

/** However many jobs say something, and however often: one statement in this time. */
const INTERVAL_MS = 1_000;

/**
 * Writes how far attempts have come: the latest value of each, all of them together. A value that has not been
 * written when its attempt ends is dropped; one that has is removed.
 */
export class ProgressWriter {
  private readonly values = new Map<string, ProgressValue>();
  private readonly written = new Map<string, AttemptKey>();
  private readonly ended = new Map<string, AttemptKey>();
  private stopTimer: (() => void) | undefined;
  private isClosed = false;
  private sentAt = -Infinity;
  private sending: Promise<void> = Promise.resolve();

  constructor(
    private readonly store: Pick<JobStore, 'writeProgress'>,
    private readonly logger: Pick<Logger, 'debug'>,
  ) {}

  /** @param value JSON text */
  say(attempt: AttemptKey, value: string): void {
    const { id, leaseNo } = attempt;
    this.values.set(keyOf(attempt), { id, leaseNo, value });
    this.schedule();
  }

  /** The attempt has ended. */
  end(attempt: AttemptKey): void {
    const key = keyOf(attempt);
    this.values.delete(key);
    const written = this.written.get(key);
    if (written === undefined) return;
    this.written.delete(key);
    this.ended.set(key, written);
    this.schedule();
  }

  /** Removes what is left, if the database answers at once; else the housekeeping of another process does. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.stopTimer?.();
    this.stopTimer = undefined;
    await this.sending;
    if (this.ended.size > 0) await this.send();
  }

  private schedule(): void {
    if (this.stopTimer !== undefined || this.isClosed) return;
    const wait = Math.max(0, this.sentAt + INTERVAL_MS - performance.now());
    this.stopTimer = startTimer(wait, () => {
      this.sending = this.send().finally(() => {
        this.stopTimer = undefined;
        if (this.values.size + this.ended.size > 0) this.schedule();
      });
    });
  }

  private async send(): Promise<void> {
    const values = [...this.values];
    const ended = [...this.ended];
    this.values.clear();
    this.ended.clear();
    this.sentAt = performance.now();
    // Before the answer: an attempt that ends meanwhile has something to remove.
    for (const [key, { id, leaseNo }] of values) this.written.set(key, { id, leaseNo });
    try {
      await this.store.writeProgress(
        values.map(([, value]) => value),
        ended.map(([, attempt]) => attempt),
      );
    } catch (error) {
      if (isConnectionUnusable(error)) this.tryAgain(values, ended);
      this.logger.debug(`Progress could not be written: ${describeError(error).message}`);
    }
  }

  /** What was said or has ended since then goes before. */
  private tryAgain(
    values: readonly (readonly [string, ProgressValue])[],
    ended: readonly (readonly [string, AttemptKey])[],
  ): void {
    for (const [key, value] of values) {
      if (this.written.has(key) && !this.values.has(key)) this.values.set(key, value);
    }
    for (const [key, attempt] of ended) this.ended.set(key, attempt);
  }
}

function keyOf({ id, leaseNo }: AttemptKey): string {
  return `${id}:${leaseNo}`;
}
