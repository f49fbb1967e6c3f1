import type { BulkOptions, BulkResult, FailedFilter, PendingFilter } from '../contracts/queue.js';
import type { JobStore } from '../store/job-store.js';

/** Jobs that are changed in one transaction. */
const BATCH = 500;

/** Cancels what matches and does not run, as far as it was there at the beginning. */
export async function clear(
  store: JobStore,
  filter: PendingFilter,
  options: BulkOptions,
): Promise<BulkResult> {
  if (options.dryRun) return dryRun(await store.countPending(filter));
  const upto = await store.lastJobId();
  return inBatches(
    (after) => store.pendingIds(filter, after, upto, BATCH),
    (ids) => store.cancelMany(ids),
    options,
  );
}

/** Brings back the failed jobs that match. */
export async function retryAll(
  store: JobStore,
  filter: FailedFilter,
  options: BulkOptions,
): Promise<BulkResult> {
  if (options.dryRun) return dryRun(await store.countFailed(filter));
  return inBatches(
    (after) => store.failedIds(filter, after, BATCH),
    async (ids) => {
      const answers = await store.retryMany(ids);
      return answers.filter(({ outcome }) => outcome === 'retried').length;
    },
    options,
  );
}

function dryRun(matched: number): BulkResult {
  return { matched, changed: 0, skipped: 0 };
}

/** In the order of the ids, so that it ends although some stay. */
async function inBatches(
  idsAfter: (id: string) => Promise<string[]>,
  change: (ids: readonly string[]) => Promise<number>,
  { onProgress }: BulkOptions,
): Promise<BulkResult> {
  let matched = 0;
  let changed = 0;
  for (let after = '0'; ;) {
    const ids = await idsAfter(after);
    if (ids.length > 0) {
      changed += await change(ids);
      matched += ids.length;
      onProgress?.({ matched, changed, skipped: matched - changed });
    }
    const last = ids.at(-1);
    if (last === undefined || ids.length < BATCH) break;
    after = last;
  }
  return { matched, changed, skipped: matched - changed };
}
