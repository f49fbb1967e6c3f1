import { setImmediate } from 'node:timers/promises';
import { errorCode } from '../store/errors.js';
import type { EnqueuedRow, JobRow } from '../store/statements/enqueue-many.js';
import { keyOf, LOCK_NOT_AVAILABLE, type EnqueueCall, type SendJobs } from './enqueue-call.js';
import { HeldKeys } from './held-keys.js';

/** More jobs than this in one statement don't make a job cheaper, and all of them wait for the last. */
const MAX_JOBS = 500;
/** Text of payloads in one statement, so that a few large ones don't hold up many small ones. */
const MAX_CHARACTERS = 4 * 1024 * 1024;
/** How long jobs with a key wait together for whoever holds one of their keys in an open transaction. */
const KEYED_LOCK_TIMEOUT_MS = 50;
/** The same for parts of a batch that has waited in vain. */
const PART_LOCK_TIMEOUT_MS = 10;

/** Errors that one job may be at fault for: of data, constraints, names, limits, or raised by a trigger. */
const FAULT_OF_ONE = /^(22|23|42|44|54|P0)/;

/**
 * Folds enqueues that are made at the same time: while one INSERT is on its way the next calls pile up, and go
 * together. One call at a time came to 1.4 k/s, twenty at a time come to 23 k/s. Each call is answered after
 * its commit, and a bad one fails alone.
 *
 * Jobs with a dedupe key go apart from the others: an insert waits for whoever holds its key in a transaction
 * that is still open.
 */
export class EnqueueBatcher {
  private readonly plain: Lane;
  private readonly keyed: Lane;

  constructor(send: SendJobs) {
    this.plain = new Lane(send);
    this.keyed = new KeyedLane(send);
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
  private waiting: EnqueueCall[] = [];
  private isSending = false;

  constructor(protected readonly send: SendJobs) {}

  enqueue(job: JobRow): Promise<EnqueuedRow> {
    return new Promise((resolve, reject) => {
      this.add({ job, since: performance.now(), resolve, reject });
    });
  }

  protected add(call: EnqueueCall): void {
    this.waiting.push(call);
    if (!this.isSending) void this.sendAll();
  }

  /** Never rejects: each call hears of its own job. */
  protected async sendTogether(calls: readonly EnqueueCall[]): Promise<void> {
    try {
      await this.answer(calls, undefined);
    } catch (error) {
      await this.refused(calls, error);
    }
  }

  /** A bad job fails alone: the batch is halved until it stands apart. */
  protected async refused(calls: readonly EnqueueCall[], error: unknown): Promise<void> {
    if (calls.length === 1 || !FAULT_OF_ONE.test(errorCode(error) ?? '')) {
      for (const call of calls) call.reject(error);
      return;
    }
    const middle = calls.length >> 1;
    await this.sendTogether(calls.slice(0, middle));
    await this.sendTogether(calls.slice(middle));
  }

  protected async answer(
    calls: readonly EnqueueCall[],
    lockTimeout: number | undefined,
  ): Promise<void> {
    const rows = await this.send(
      calls.map(({ job }) => job),
      lockTimeout,
    );
    for (const row of rows) calls[row.ordinal]?.resolve(row);
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

  private takeBatch(): EnqueueCall[] {
    let characters = 0;
    const count = this.waiting.findIndex(({ job }, index) => {
      characters += job.payload.length + (job.meta?.length ?? 0);
      return index > 0 && (index === MAX_JOBS || characters > MAX_CHARACTERS);
    });
    return count < 0 ? this.waiting.splice(0) : this.waiting.splice(0, count);
  }
}

/** Calls with a dedupe key: those whose key is held leave the lane, so that the others don't wait. */
class KeyedLane extends Lane {
  private readonly held = new HeldKeys(this.send, (calls) => {
    for (const call of calls) this.add(call);
  });

  protected override add(call: EnqueueCall): void {
    if (this.held.has(call)) this.held.add(call);
    else super.add(call);
  }

  protected override async sendTogether(
    calls: readonly EnqueueCall[],
    lockTimeout = KEYED_LOCK_TIMEOUT_MS,
  ): Promise<void> {
    try {
      await this.answer(calls, lockTimeout);
    } catch (error) {
      if (errorCode(error) === LOCK_NOT_AVAILABLE) await this.part(calls);
      else await this.refused(calls, error);
    }
  }

  /** Somebody holds a key of these: halved, by keys, until it stands apart. */
  private async part(calls: readonly EnqueueCall[]): Promise<void> {
    const keys = [...new Set(calls.map(keyOf))];
    if (keys.length === 1) {
      for (const call of calls) this.held.add(call);
      return;
    }
    const first = new Set(keys.slice(0, keys.length >> 1));
    const isFirst = (call: EnqueueCall) => first.has(keyOf(call));
    await this.sendTogether(calls.filter(isFirst), PART_LOCK_TIMEOUT_MS);
    await this.sendTogether(
      calls.filter((call) => !isFirst(call)),
      PART_LOCK_TIMEOUT_MS,
    );
  }
}
