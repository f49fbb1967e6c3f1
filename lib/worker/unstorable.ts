import type { Settlement } from '../store/statements/exchange.js';
import { describeError } from './error-record.js';

const NAME = 'OutcomeNotStorable';

/** What takes the place of a settlement that the database refuses: the job failed, and why. */
export function storableFailure({ id, leaseNo }: Settlement, reason: unknown) {
  const message = `The outcome can't be stored: ${describeError(reason).message}`;
  return { id, leaseNo, action: 'fail', error: { name: NAME, message } } as const;
}

/** Whether the settlement is such a one already. */
export function isStorableFailure(settlement: Settlement): boolean {
  return settlement.action === 'fail' && settlement.error?.name === NAME;
}
