import { epochMs, json, number, simpleArray, statement, text, type TextRow } from '../statement.js';

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
  /** Only these kinds, or all but these; neither = all that the worker handles. */
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  readonly want: number;
  /** Lanes of the same slots get no more than `free` between them, the first one first. */
  readonly slots?: string;
  readonly free?: number;
}

/** How many jobs the lanes ask for: those of the same slots share what is free. */
export function wantOf(lanes: readonly Lane[]): number {
  const bySlots = new Map<string | Lane, number>();
  for (const lane of lanes) {
    const key = lane.slots ?? lane;
    const sum = (bySlots.get(key) ?? 0) + lane.want;
    bySlots.set(key, Math.min(sum, lane.free ?? Infinity));
  }
  return [...bySlots.values()].reduce((sum, want) => sum + want, 0);
}

/** A place in the order of the jobs. The instant is the database's own text. */
export interface Position {
  readonly priority: number;
  readonly runAt: string;
  readonly id: string;
}

/** A lane, or one stretch of it: it begins after a position, and ends with a priority. */
export interface Look extends Lane {
  /** Looks of the same lane get no more than its `want` between them. */
  readonly lane: number;
  readonly after?: Position;
  readonly upto?: number;
}

export interface ExchangeRequest {
  readonly worker: string;
  readonly epoch: number;
  readonly settlements: readonly Settlement[];
  readonly looks: readonly Look[];
  /** Scheduled jobs due before this instant were promoted; undefined = look at all of them. */
  readonly dueAfter?: string | undefined;
  /** No more jobs than this over all looks; undefined = no bound. */
  readonly budget?: number | undefined;
  /** History goes to the overflow table: today has no partition. */
  readonly overflow: boolean;
  /** Ids among the settlements whose jobs were under a limit. */
  readonly held?: readonly string[] | undefined;
  /** Keys of limits that an exchange before could not free, since somebody else was counting them. */
  readonly freed?: readonly string[] | undefined;
}

/** What limits did to an exchange. */
export interface LimitsAnswer {
  /** Ids of claimed jobs that are under a limit. */
  readonly held: readonly string[];
  /** The next request's `freed`. */
  readonly refused: readonly string[];
  /** How many due jobs were put aside until there is room for them. */
  readonly parked: number;
  /** Whether due jobs were left although they may run, since somebody else was counting. */
  readonly skipped: boolean;
}

/** How far the looks of an exchange came. */
export interface Progress {
  /** The next request's `dueAfter`. */
  readonly dueAfter: string | undefined;
  /** Looks that found something, by their index, and the position of their last job. */
  readonly last: readonly { readonly look: number; readonly position: Position }[];
  /** Milliseconds that looking took. */
  readonly took: number;
  /** Undefined if there are no limits. */
  readonly limits?: LimitsAnswer | undefined;
}

/** A job that this worker now holds. */
export interface ClaimedJob {
  readonly id: string;
  readonly leaseNo: number;
  readonly queue: string;
  readonly kind: string;
  /** JSON text. */
  readonly payload: string;
  readonly priority: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** JSON text. */
  readonly meta: string | null;
  readonly createdAt: number;
}

export type ExchangeRow =
  /** First, if it may claim: milliseconds until the next scheduled job of any queue, if any. */
  | { readonly answer: 'alive'; readonly dueIn: number | undefined; readonly progress: Progress }
  /** First, if not: it was declared dead, or another connection of it has taken over. */
  | { readonly answer: 'dead' | 'stale' }
  /** Settlements that were not stored now. */
  | { readonly answer: 'already' | 'busy' | 'lost'; readonly id: string }
  | { readonly answer: 'job'; readonly job: ClaimedJob }
  /** Due with a spent budget: a failed job now, without a run. There may be more behind it. */
  | { readonly answer: 'spent'; readonly id: string }
  /** Due after its deadline: cancelled, without a run. There may be more behind it. */
  | { readonly answer: 'expired'; readonly id: string };

/** Settle and claim, see migrations/0004-exchange. */
export const exchange = statement<ExchangeRequest, ExchangeRow>({
  isHot: true,
  text: /* sql */ `
    select answer, id, lease_no, queue, kind, payload, priority, attempt, max_attempts, meta,
           ${epochMs('created_at')} as created_at, due_in
      from pgqueue.exchange_v1($1::uuid, $2::int, $3::bigint[], $4::int[], $5::boolean[], $6::jsonb[],
                               $7::jsonb, $8::jsonb, $9::timestamptz, $10::boolean, $11::int,
                               $12::bigint[], $13::text[])`,
  values: (request) => {
    const { worker, epoch, settlements, looks, dueAfter, budget, overflow, held, freed } = request;
    const done = settlements.filter((settlement) => settlement.action === 'done');
    const others = settlements.filter((settlement) => settlement.action !== 'done');
    const hasResult = done.some(({ result }) => result !== undefined);
    return [
      worker,
      epoch,
      simpleArray(done, ({ id }) => id),
      simpleArray(done, ({ leaseNo }) => leaseNo),
      simpleArray(done, ({ keep }) => keep),
      hasResult ? done.map(({ result }) => result ?? null) : null,
      others.length > 0 ? JSON.stringify(others.map(outcome)) : null,
      JSON.stringify(looks.map(lookRow)),
      dueAfter ?? null,
      overflow,
      budget ?? null,
      held ?? null,
      freed ?? null,
    ];
  },
  row: (row) => {
    const answer = text(row, 'answer') as ExchangeRow['answer'];
    switch (answer) {
      case 'job':
        return { answer, job: claimedJob(row) };
      case 'alive': {
        const dueIn = row.due_in === null ? undefined : number(row, 'due_in');
        return { answer, dueIn, progress: progress(json(row, 'payload') as ProgressRow) };
      }
      case 'dead':
      case 'stale':
        return { answer };
      default:
        return { answer, id: text(row, 'id') };
    }
  },
});

type Unsuccessful = Exclude<Settlement, { action: 'done' }>;

function outcome({ id, leaseNo, action, delayMs, runAt, error }: Unsuccessful): object {
  return { id, lease_no: leaseNo, action, delay_ms: delayMs, run_at: runAt, error };
}

function lookRow({ only, except, after, ...look }: Look): object {
  const place = after && { after_p: after.priority, after_r: after.runAt, after_i: after.id };
  return { ...look, of_kinds: only, not_kinds: except, ...place };
}

/** As the database writes it: an index of SQL counts from 1. */
interface ProgressRow {
  readonly due: string | null;
  readonly last: readonly { look: number; p: number; r: string; i: string }[];
  readonly took: number;
  readonly limits: LimitsAnswer | null;
}

function progress({ due, last, took, limits }: ProgressRow): Progress {
  return {
    dueAfter: due ?? undefined,
    last: last.map(({ look, p, r, i }) => ({
      look: look - 1,
      position: { priority: p, runAt: r, id: i },
    })),
    took,
    limits: limits ?? undefined,
  };
}

function claimedJob(row: TextRow): ClaimedJob {
  return {
    id: text(row, 'id'),
    leaseNo: number(row, 'lease_no'),
    queue: text(row, 'queue'),
    kind: text(row, 'kind'),
    payload: text(row, 'payload'),
    priority: number(row, 'priority'),
    attempt: number(row, 'attempt'),
    maxAttempts: number(row, 'max_attempts'),
    meta: row.meta ?? null,
    createdAt: number(row, 'created_at'),
  };
}
