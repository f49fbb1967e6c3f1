import { within } from '../contracts/within.js';

/** How long the last results and the farewell may take: an absent database must not hold up a stop. */
export const FAREWELL_LIMIT_MS = 350;

/** The farewell of a worker must not wait for a database that is gone; whatever failed, others put right. */
export async function bounded(step: Promise<unknown>, limit = 0): Promise<void> {
  await within(
    Math.max(FAREWELL_LIMIT_MS, limit),
    step,
    () => new Error('The step took too long'),
  ).catch(() => {});
}
