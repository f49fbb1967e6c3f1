import type { Logger } from '@nestjs/common';
import type { HandlerTable } from '../contracts/handler.js';
import type { JobEventSink } from '../contracts/job-events.js';
import type { DrainResult } from '../contracts/queue.js';
import { startTimer } from '../contracts/timer.js';
import type { JobStore } from '../store/job-store.js';
import { Worker } from './worker.js';
import type { WorkerSettings } from './worker-settings.js';

/** Bounds of a drain, checked: milliseconds, and a whole number or no bound. */
export interface DrainBounds {
  readonly max: number | undefined;
  readonly timeout: number;
}

/**
 * A worker with an end: rescues what dead workers left, runs what is due within the bounds, settles, and is
 * gone. Any number may run at once, beside workers that stay.
 */
export async function drain(
  store: JobStore,
  handlers: HandlerTable,
  settings: WorkerSettings,
  { max, timeout }: DrainBounds,
  logger: Logger,
  events: JobEventSink,
): Promise<DrainResult> {
  const worker = new Worker(
    store,
    handlers,
    { ...settings, listen: false, ...(max !== undefined && { budget: max }) },
    logger,
    events,
  );
  let isOver = false;
  let stopTimer = () => {};
  const timeIsOver = new Promise<void>((resolve) => {
    stopTimer = startTimer(timeout, () => {
      isOver = true;
      resolve();
    });
  });
  await Promise.race([timeIsOver, worker.start().then(() => worker.idle())]);
  stopTimer();
  await worker.stop();
  const { done, retry, fail } = worker.outcomes;
  const reason = isOver ? 'timeout' : worker.claims === max ? 'max' : 'empty';
  return { claimed: worker.claims, done, retried: retry, failed: fail, reason };
}
