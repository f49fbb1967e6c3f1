import { epochMs, number, statement, text, type TextRow } from '../statement.js';

/** An error as it is stored: cleaned and bounded, see worker/error-record. */
export interface StoredError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
}

/** How an attempt ended. `leaseNo` fences it: only the claim that it belongs to can be settled. */
export type Settlement = { readonly id: string; readonly leaseNo: number } & (
  | {
      readonly action: 'done';
      /** JSON text; undefined = no result. */
      readonly result: string | undefined;
      /** Whether the job goes to the history. */
      readonly keep: boolean;
    }
  | {
      /** `release` gives the attempt back; with neither delay nor instant the job is due at once. */
      readonly action: 'retry' | 'release' | 'fail' | 'cancel';
      readonly delayMs?: number;
      readonly runAt?: Date;
      readonly error?: StoredError;
    }
);

/** A request for at most `want` due jobs of one queue. */
export interface Lane {
  readonly queue: string;
  readonly kinds: readonly string[];
  readonly want: number;
  /** Lanes of the same slots get no more than `free` between them, the one that wants least first. */
  readonly slots?: string;
  readonly free?: number;
}

export interface ExchangeRequest {
  readonly worker: string;
  readonly epoch: number;
  readonly settlements: readonly Settlement[];
  readonly lanes: readonly Lane[];
  /** No more jobs than this over all lanes; undefined = no bound. */
  readonly budget?: number | undefined;
  /** History goes to the overflow table: today has no partition. */
  readonly overflow: boolean;
}

/** A job that this worker now holds. */
export interface ClaimedJob {
  readonly id: string;
  readonly leaseNo: number;
  readonly queue: string;
  readonly kind: string;
  /** JSON text. */
  readonly payload: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** JSON text. */
  readonly meta: string | null;
  readonly createdAt: number;
}

export type ExchangeRow =
  /** First: how the worker stands, and milliseconds until the next scheduled job of any queue, if any. */
  | { readonly answer: 'alive' | 'dead' | 'stale'; readonly dueIn: number | undefined }
  /** Settlements that were not stored now. */
  | { readonly answer: 'already' | 'busy' | 'lost'; readonly id: string }
  | { readonly answer: 'job'; readonly job: ClaimedJob }
  /** Due with a spent budget: a failed job now, without a run. There may be more behind it. */
  | { readonly answer: 'spent'; readonly id: string };

/** Settle and claim, see migrations/0003-exchange. */
export const exchange = statement<ExchangeRequest, ExchangeRow>({
  text: /* sql */ `
    select answer, id, lease_no, queue, kind, payload, attempt, max_attempts, meta,
           ${epochMs('created_at')} as created_at, due_in
      from pgqueue.exchange_v1($1::uuid, $2::int, $3::bigint[], $4::int[], $5::bigint[], $6::jsonb[],
                               $7::jsonb, $8::jsonb, $9::boolean, $10::int)`,
  values: ({ worker, epoch, settlements, lanes, budget, overflow }) => {
    const done = settlements.filter((settlement) => settlement.action === 'done');
    return [
      worker,
      epoch,
      done.map((settlement) => settlement.id),
      done.map((settlement) => settlement.leaseNo),
      done.filter((settlement) => !settlement.keep).map((settlement) => settlement.id),
      done.map((settlement) => settlement.result ?? null),
      JSON.stringify(settlements.filter(({ action }) => action !== 'done').map(outcome)),
      JSON.stringify(lanes),
      overflow,
      budget ?? null,
    ];
  },
  row: (row) => {
    const answer = text(row, 'answer') as ExchangeRow['answer'];
    if (answer === 'job') return { answer, job: claimedJob(row) };
    if (answer === 'alive' || answer === 'dead' || answer === 'stale') {
      return { answer, dueIn: row.due_in === null ? undefined : number(row, 'due_in') };
    }
    return { answer, id: text(row, 'id') };
  },
});

function outcome(settlement: Settlement): object {
  const { id, leaseNo, action } = settlement;
  if (action === 'done') return {};
  const { delayMs, runAt, error } = settlement;
  return { id, lease_no: leaseNo, action, delay_ms: delayMs, run_at: runAt, error };
}

function claimedJob(row: TextRow): ClaimedJob {
  return {
    id: text(row, 'id'),
    leaseNo: number(row, 'lease_no'),
    queue: text(row, 'queue'),
    kind: text(row, 'kind'),
    payload: text(row, 'payload'),
    attempt: number(row, 'attempt'),
    maxAttempts: number(row, 'max_attempts'),
    meta: row.meta ?? null,
    createdAt: number(row, 'created_at'),
  };
}
