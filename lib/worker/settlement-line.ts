import type { ClaimedJob, Settlement } from '../store/statements/exchange.js';

/** What the log says of an attempt that did not simply succeed. No payload, no stack: those are in the row. */
export function settlementLine(
  job: ClaimedJob,
  settlement: Settlement,
): { level: 'log' | 'warn' | 'error'; text: string } | undefined {
  if (settlement.action === 'done') return undefined;
  const what = `Job ${job.id} (${job.kind}), attempt ${job.attempt} of ${job.maxAttempts}`;
  switch (settlement.action) {
    case 'retry':
      return { level: 'warn', text: `${what}, failed; ${due(settlement)}. ${message(settlement)}` };
    case 'fail':
      return { level: 'error', text: `${what}, failed for good. ${message(settlement)}` };
    case 'cancel':
      return { level: 'log', text: `${what}, cancelled. ${message(settlement)}` };
    case 'release':
      return { level: 'log', text: `${what}, handed back: ${due(settlement)}` };
  }
}

type Unsuccessful = Exclude<Settlement, { action: 'done' }>;

function message({ error }: Unsuccessful): string {
  return error ? `${error.name}: ${error.message}` : '';
}

function due({ delayMs, runAt }: Unsuccessful): string {
  if (runAt) return `due again at ${runAt.toISOString()}`;
  return delayMs === undefined ? 'due again now' : `due again in ${(delayMs / 1000).toFixed(1)} s`;
}
