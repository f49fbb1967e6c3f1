import { resultMarker } from '../contracts/result-marker.js';
import type { Settlement } from '../store/statements/exchange.js';
import { describeError } from './error-record.js';

const NAME = 'OutcomeNotStorable';
const RESULT_REFUSED = resultMarker('the database refused it');

/** What takes the place of a settlement that the database refuses: the job failed, and why. */
export function storableFailure({ id, leaseNo }: Settlement, reason: unknown) {
  // In ASCII, which every encoding of a database has.
  const why = describeError(reason).message.replaceAll(/[^\x20-\x7e]/g, '?');
  const message = `The outcome can't be stored: ${why}`;
  return { id, leaseNo, action: 'fail', error: { name: NAME, message } } as const;
}

/** The same success without its result, if it has one that may be at fault: it must not count as failed for that. */
export function withoutResult(settlement: Settlement): Settlement | undefined {
  if (settlement.action !== 'done' || settlement.result === undefined) return undefined;
  return settlement.result === RESULT_REFUSED
    ? undefined
    : { ...settlement, result: RESULT_REFUSED };
}

/** Whether the settlement is such a one already. */
export function isStorableFailure(settlement: Settlement): boolean {
  return settlement.action === 'fail' && settlement.error?.name === NAME;
}
