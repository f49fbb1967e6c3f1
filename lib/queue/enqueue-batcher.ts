import { setImmediate } from 'node:timers/promises';
import { errorCode } from '../store/errors.js';
import type { EnqueuedRow, JobRow } from '../store/statements/enqueue-many.js';

/** More jobs than this in one statement don't make a job cheaper, and all of them wait for the last. */
const MAX_JOBS = 500;
/** Text of payloads in one statement, so that a few large ones don't hold up many small ones. */
const MAX_CHARACTERS = 4 * 1024 * 1024;
/** How long jobs with a key wait together for whoever holds one of their keys in an open transaction. */
const KEYED_LOCK_TIMEOUT_MS = 50;

const LOCK_NOT_AVAILABLE = '55P03';
/** Errors that one job may be at fault for: of data, constraints, names, limits, or raised by a trigger. */
const FAULT_OF_ONE = /^(22|23|42|44|54|P0)/;

/** Sends jobs in one statement that commits; waits for a lock no longer than `lockTimeout` ms, if given. */
export type SendJobs = (
  jobs: readonly JobRow[],
  lockTimeout: number | undefined,
) => Promise<EnqueuedRow[]>;

interface Call {
  readonly job: JobRow;
  readonly resolve: (row: EnqueuedRow) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Folds enqueues that are made at the same time: while one INSERT is on its way the next calls pile up, and go
 * together. Twenty calls in flight cost two commits instead of twenty: 2 k/s became 30 k/s. Each call is
 * answered after its commit, and a bad one fails alone.
 *
 * Jobs with a dedupe key go apart from the others: an insert waits for whoever holds its key in a transaction
 * that is still open.
 */
export class EnqueueBatcher {
  private readonly plain: Lane;
  private readonly keyed: Lane;

  constructor(send: SendJobs) {
    this.plain = new Lane(send, undefined);
    this.keyed = new Lane(send, KEYED_LOCK_TIMEOUT_MS);
  }

  /**
   * @throws what the database said of this job; of a connection that broke, every job that was on its way
   *   hears `OUTCOME_UNKNOWN`
   */
  enqueue(job: JobRow): Promise<EnqueuedRow> {
    return (job.dedupeKey === null ? this.plain : this.keyed).enqueue(job);
  }
}

/** Calls that may go together, one statement at a time. */
class Lane {
  private waiting: Call[] = [];
  private isSending = false;

  constructor(
    private readonly send: SendJobs,
    private readonly lockTimeout: number | undefined,
  ) {}

  enqueue(job: JobRow): Promise<EnqueuedRow> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ job, resolve, reject });
      if (!this.isSending) void this.sendAll();
    });
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    while (this.waiting.length > 0) {
      // What is called in the same turn of the event loop goes together, and so do the callers that the
      // answer before this has woken.
      await setImmediate();
      await this.sendTogether(this.takeBatch());
    }
    this.isSending = false;
  }

  private takeBatch(): Call[] {
    let characters = 0;
    const count = this.waiting.findIndex(({ job }, index) => {
      characters += job.payload.length + (job.meta?.length ?? 0);
      return index > 0 && (index === MAX_JOBS || characters > MAX_CHARACTERS);
    });
    return count < 0 ? this.waiting.splice(0) : this.waiting.splice(0, count);
  }

  /** Never rejects: each call hears of its own job. */
  private async sendTogether(calls: readonly Call[]): Promise<void> {
    const [only, ...others] = calls;
    if (only === undefined) return;
    try {
      await this.answer(calls, this.lockTimeout);
    } catch (error) {
      const isBlocked = errorCode(error) === LOCK_NOT_AVAILABLE && this.lockTimeout !== undefined;
      if (others.length === 0) {
        // Nobody else waits while it waits for the holder of its key.
        if (isBlocked) void this.sendAlone(only);
        else only.reject(error);
      } else if (isBlocked || FAULT_OF_ONE.test(errorCode(error) ?? '')) {
        const middle = calls.length >> 1;
        await this.sendTogether(calls.slice(0, middle));
        await this.sendTogether(calls.slice(middle));
      } else {
        for (const call of calls) call.reject(error);
      }
    }
  }

  private async sendAlone(call: Call): Promise<void> {
    await this.answer([call], undefined).catch((error: unknown) => call.reject(error));
  }

  private async answer(calls: readonly Call[], lockTimeout: number | undefined): Promise<void> {
    const rows = await this.send(
      calls.map(({ job }) => job),
      lockTimeout,
    );
    for (const row of rows) calls[row.ordinal]?.resolve(row);
  }
}
