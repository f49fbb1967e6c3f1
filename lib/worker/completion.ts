import { PgQueueError } from '../contracts/errors.js';
import type { RegisteredHandler } from '../contracts/handler.js';
import type { QueueTransaction } from '../contracts/transaction.js';
import { callersTransaction } from '../store/callers-transaction.js';
import { transactionAborted } from '../store/connections.js';
import { errorCode } from '../store/errors.js';
import type { JobStore } from '../store/job-store.js';
import type { ClaimedJob } from '../store/statements/exchange.js';
import { resultRecord } from './result-record.js';

/** PostgreSQL's in_failed_sql_transaction: a statement had failed, and `work` hid that. */
const IN_FAILED_TRANSACTION = '25P02';

/** What a completion needs to know of its attempt. */
export interface CompletedAttempt {
  readonly job: ClaimedJob;
  readonly handler: RegisteredHandler;
  readonly workerId: string;
  /** Why the attempt should stop; undefined = it may go on. */
  readonly interruption: PgQueueError | undefined;
  interrupt(reason: PgQueueError): void;
}

/**
 * The transaction in which an attempt's writes and the end of its job are committed together. Whether the job is
 * done is decided by its row, see pgqueue.complete_v1; this remembers what is known of that.
 */
export class Completion {
  private state: 'none' | 'open' | 'committed' = 'none';
  /** Of a commit whose answer was lost. */
  private lostAnswer: unknown;

  constructor(
    private readonly store: JobStore,
    private readonly attempt: CompletedAttempt,
  ) {}

  /** The job is done: there is nothing left to settle. */
  get isCommitted(): boolean {
    return this.state === 'committed';
  }

  /**
   * Not undefined: nobody here knows whether the job is done. Whatever the handler does with that error, the attempt
   * must not count as a success: if the commit came to nothing, the writes are missing. It is settled as a failed
   * attempt, which changes nothing of a job that is done, since the row that it needs has gone.
   */
  get unknownOutcome(): unknown {
    return this.lostAnswer;
  }

  /** @throws as `JobContext.transaction` */
  async run<T>(work: (tx: QueueTransaction) => Promise<T>): Promise<T> {
    if (this.state !== 'none') throw secondTransaction(this.attempt.job, this.isCommitted);
    if (this.attempt.interruption) throw this.attempt.interruption;
    this.state = 'open';
    let isCommitting = false;
    try {
      const value = await callersTransaction(this.store.database, async (tx) => {
        const result = await work(tx);
        await this.complete(tx, result);
        isCommitting = true;
        return result;
      });
      this.lostAnswer = undefined;
      this.state = 'committed';
      return value;
    } catch (error) {
      if (isCommitting && errorCode(error) === 'OUTCOME_UNKNOWN') this.lostAnswer = error;
      this.state = 'none';
      throw error;
    }
  }

  private async complete(tx: QueueTransaction, value: unknown): Promise<void> {
    const { job, handler, workerId } = this.attempt;
    const { id, leaseNo } = job;
    const result = resultRecord(value);
    const completion = { worker: workerId, id, leaseNo, keep: handler.keepDone, result };
    const outcome = await this.store.complete(completion, tx).catch((error: unknown) => {
      throw errorCode(error) === IN_FAILED_TRANSACTION ? transactionAborted() : error;
    });
    if (outcome === 'done') return;
    const reason = outcome === 'lost' ? lost(job) : cancelled(job);
    this.attempt.interrupt(reason);
    throw reason;
  }
}

/** The reason of a signal when somebody cancelled the job while it ran. */
export function cancelled({ id }: ClaimedJob): PgQueueError {
  return new PgQueueError(
    'JOB_CANCELLED',
    `Job ${id} was cancelled while it ran: stop working on it.`,
  );
}

function lost({ id }: ClaimedJob): PgQueueError {
  return new PgQueueError(
    'LEASE_LOST',
    `Job ${id} is not this attempt's any more, so its transaction was rolled back. Another worker runs it, or it has been settled; let this error pass.`,
  );
}

function secondTransaction({ id }: ClaimedJob, isCommitted: boolean): PgQueueError {
  const what = isCommitted ? 'has been completed by' : 'is being completed by';
  return new PgQueueError(
    'SECOND_TRANSACTION',
    `Job ${id} ${what} another transaction of this attempt. Do everything in one job.transaction, or use queue.transaction for what does not complete the job.`,
  );
}
