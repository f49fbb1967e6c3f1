import type { Logger } from '@nestjs/common';
import type { JobStore } from '../../store/job-store.js';

const BATCH = 500;

/** Declares overdue workers dead, then frees what they held. Others may do the same at the same time. */
export async function rescueFrom(
  store: JobStore,
  overdue: readonly string[],
  logger: Logger,
): Promise<void> {
  for (const workerId of overdue) {
    if (await store.declareDead(workerId)) {
      logger.warn(`Worker ${workerId} is dead: its lease has expired. Its jobs run elsewhere now`);
    }
  }
  await rescueAll(store, false, logger);
}

/** Frees the jobs of dead workers; with `strays`, also of workers that have no row. */
export async function rescueAll(store: JobStore, strays: boolean, logger: Logger): Promise<void> {
  for (;;) {
    const rescued = await store.rescue(strays, BATCH);
    for (const { id, kind, worker, outcome } of rescued) {
      const end = outcome === 'freed' ? 'is due again' : 'had no attempts left: it is failed now';
      logger.warn(`Job ${id} (${kind}) of the dead worker ${worker} ${end}`);
    }
    if (rescued.length < BATCH) return;
  }
}
