import type { Logger } from '@nestjs/common';
import type { JobStore } from '../../store/job-store.js';
import type { Task } from '../../store/statements/maintenance.js';
import type { SortedRow } from '../../store/statements/workers.js';
import type { Rescue } from './rescue.js';

const BATCH = 1_000;

export interface Retention {
  /** Milliseconds; false keeps no history, so that what there is goes with its day. */
  readonly keepDone: number | false;
  /** Milliseconds; false = for ever. */
  readonly keepFailed: number | false;
}

/** Work that one process at a time does for all, in bounded batches. */
export interface HousekeepingTask {
  readonly task: Task;
  /** Milliseconds between two ticks. */
  readonly interval: number;
  run(): Promise<void>;
}

export function housekeepingTasks(
  store: JobStore,
  rescue: Rescue,
  retention: Retention,
  logger: Logger,
): HousekeepingTask[] {
  return [
    {
      task: 'history',
      interval: 60 * 60_000,
      run: async () => {
        await store.makeDaysAhead();
        const keep = retention.keepDone === false ? 0 : retention.keepDone;
        await store.dropOldDays(keep);
        await inBatches(() => store.deleteOverflow(keep, BATCH));
      },
    },
    {
      task: 'failed',
      interval: 60 * 60_000,
      run: async () => {
        const { keepFailed } = retention;
        if (keepFailed !== false) await inBatches(() => store.deleteFailed(keepFailed, BATCH));
      },
    },
    {
      task: 'strays',
      interval: 5 * 60_000,
      run: () => rescue.strays(),
    },
    {
      task: 'handlers',
      interval: 15_000,
      run: () => sortByHandler(store, logger),
    },
    {
      task: 'slots',
      interval: 60_000,
      run: () => inBatches(() => store.sweepSlots()),
    },
    {
      task: 'deadlines',
      interval: 15_000,
      run: () => inBatches(() => store.expire(BATCH)),
    },
    {
      task: 'progress',
      interval: 60 * 60_000,
      run: () => inBatches(() => store.deleteProgress(BATCH)),
    },
    {
      task: 'dedupe',
      interval: 10 * 60_000,
      run: () => inBatches(() => store.deleteDedupeWindows(BATCH)),
    },
  ];
}

async function sortByHandler(store: JobStore, logger: Logger): Promise<void> {
  const aside = new Map<string, number>();
  await inBatches(async () => {
    const rows = await store.sortByHandler(BATCH);
    for (const { queue, kind, jobs, outcome } of rows) {
      if (outcome !== 'set_aside') continue;
      const what = `of kind '${kind}' in queue '${queue}'`;
      aside.set(what, (aside.get(what) ?? 0) + jobs);
    }
    return Math.max(...sums(rows));
  });
  for (const [what, jobs] of aside) {
    logger.warn(`${jobs} due jobs ${what} wait: no live worker handles them`);
  }
}

/** Rows moved either way: the limit of a batch holds for each. */
function sums(rows: readonly SortedRow[]): number[] {
  return [true, false].map((isBack) =>
    rows
      .filter(({ outcome }) => (outcome === 'brought_back') === isBack)
      .reduce((sum, { jobs }) => sum + jobs, 0),
  );
}

/** Until a batch is short: the rest is new, or locked by someone, and the next tick's. */
async function inBatches(next: () => Promise<number>): Promise<void> {
  while ((await next()) >= BATCH);
}
