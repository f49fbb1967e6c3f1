import type { Logger } from '@nestjs/common';
import { startTimer } from '../../contracts/timer.js';
import { isConnectionUnusable } from '../../store/errors.js';
import type { JobStore } from '../../store/job-store.js';
import type { Task } from '../../store/statements/maintenance.js';
import { describeError } from '../error-record.js';
import type { HousekeepingTask } from './tasks.js';

/**
 * Leaderless housekeeping: every worker looks after every task at about its interval, and whoever moves the
 * task's mark in the database does it. One task at a time, on one connection. A task that fails is tried
 * again at its next tick.
 */
export class Housekeeping {
  private readonly timers = new Map<Task, () => void>();
  private lastTask: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly store: JobStore,
    private readonly tasks: readonly HousekeepingTask[],
    private readonly logger: Logger,
  ) {}

  start(): void {
    for (const task of this.tasks) this.tick(task);
  }

  /** Does the task as soon as possible, whoever's turn it is. Never rejects. */
  async now(task: Task): Promise<void> {
    const found = this.tasks.find((candidate) => candidate.task === task);
    if (found) await this.inTurn(found, () => found.run());
  }

  /** Somebody has made the task due before its time: whoever is first does it. */
  ifDue(task: Task): void {
    const found = this.tasks.find((candidate) => candidate.task === task);
    if (found) void this.inTurn(found, () => this.take(found));
  }

  /** No new tick; resolves when the task that is under way has ended. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const stopTimer of this.timers.values()) stopTimer();
    await this.lastTask;
  }

  private tick(task: HousekeepingTask): void {
    void this.inTurn(task, () => this.take(task));
    // Drawn at random, so that processes that started together do not ask together.
    const next = task.interval * (1 + Math.random() / 4);
    this.timers.set(
      task.task,
      startTimer(next, () => this.tick(task)),
    );
  }

  private async take(task: HousekeepingTask): Promise<void> {
    if (await this.store.takeTask(task.task, task.interval)) await task.run();
  }

  private inTurn(task: HousekeepingTask, run: () => Promise<void>): Promise<void> {
    this.lastTask = this.lastTask.then(() => this.attempt(task, run));
    return this.lastTask;
  }

  private async attempt({ task }: HousekeepingTask, run: () => Promise<void>): Promise<void> {
    if (this.stopped) return;
    try {
      await run();
    } catch (error) {
      // Of an outage the exchange loop tells, once.
      const level = isConnectionUnusable(error) ? 'debug' : 'warn';
      const { message } = describeError(error);
      this.logger[level](`Housekeeping of ${task} failed (${message}); it is tried again later`);
    }
  }
}
