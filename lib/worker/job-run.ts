import { Logger } from '@nestjs/common';
import { PgQueueError } from '../contracts/errors.js';
import type { RegisteredHandler } from '../contracts/handler.js';
import type { JobContext } from '../contracts/job.js';
import { slotOfMeta } from '../contracts/schedule.js';
import { startTimer } from '../contracts/timer.js';
import type { QueueTransaction } from '../contracts/transaction.js';
import type { JobStore } from '../store/job-store.js';
import type { ClaimedJob } from '../store/statements/exchange.js';
import { Completion } from './completion.js';
import { describeError } from './error-record.js';
import { outcomeOf, type AttemptEnd, type Outcome } from './outcome.js';
import { progressText } from './progress-value.js';
import type { ProgressWriter } from './progress-writer.js';

/** What attempts may ask for while they run. */
export interface AttemptServices {
  readonly store: JobStore;
  readonly progress: ProgressWriter;
}

/**
 * One attempt, from the claim to its outcome. The attempt ends when the handler ends, when its time is
 * over, or when nobody waits any more; whatever the handler does after that is ignored.
 */
export class JobRun {
  /** Made for handlers that ask for their signal: it took 3 µs of a job. */
  private controller: AbortController | undefined;
  /** Why the attempt should stop, if it should. */
  interruption: PgQueueError | undefined;
  private stopTimer: () => void = () => {};
  private tell: ((outcome: Outcome | undefined) => void) | undefined;
  private completion: Completion | undefined;
  private ownTx: QueueTransaction | undefined;
  private saysProgress = false;

  constructor(
    readonly job: ClaimedJob,
    readonly handler: RegisteredHandler,
    /** The id under which the job was claimed: only that one may settle it. */
    readonly workerId: string,
    private readonly services: AttemptServices,
  ) {}

  get queue(): string {
    return this.job.queue;
  }

  get kind(): string {
    return this.job.kind;
  }

  get priority(): number {
    return this.job.priority;
  }

  /**
   * Runs the handler. `ended` is called once; every job would pay for a promise. Without an outcome: the attempt
   * has completed its job itself.
   */
  run(ended: (outcome: Outcome | undefined) => void): void {
    this.tell = ended;
    this.startTimeout();
    void this.callHandler();
  }

  /** Asks the handler to stop, through its signal. */
  interrupt(reason: PgQueueError): void {
    this.interruption ??= reason;
    this.controller?.abort(reason);
  }

  /** Aborted when the attempt should stop. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.interruption) this.controller.abort(this.interruption);
    }
    return this.controller.signal;
  }

  /** Waits for the handler no longer: the attempt is given back. */
  abandon(): void {
    this.end({ how: 'abandoned' });
  }

  /** See `JobContext.transaction`. */
  transaction<T>(work: (tx: QueueTransaction) => Promise<T>): Promise<T> {
    this.completion ??= new Completion(this.services.store, this);
    return this.completion.run(work);
  }

  get tx(): QueueTransaction {
    if (this.ownTx !== undefined) return this.ownTx;
    throw new PgQueueError(
      'INVALID_ARGUMENT',
      `job.tx was read in ${this.handler.origin}, which runs in no transaction. Give its @JobHandler \`transactional: true\`, or use job.transaction.`,
    );
  }

  /** See `JobContext.progress`. What a handler says after its attempt has ended is ignored. */
  progress(value: unknown): void {
    const text = progressText(value);
    if (this.tell === undefined) return;
    this.saysProgress = true;
    this.services.progress.say(this.job, text);
  }

  private async callHandler(): Promise<void> {
    try {
      this.throwIfInterrupted(); // cancelled while it waited for a slot
      const context = new Context(this.job, this);
      const { stillNeeded } = this.handler;
      if (stillNeeded !== undefined) {
        if (!(await stillNeeded(context.payload, context))) return this.end({ how: 'not needed' });
        if (this.tell === undefined) return;
        this.throwIfInterrupted();
      }
      this.end({ how: 'returned', value: await this.handle(context) });
    } catch (error) {
      const interrupted = this.interruption;
      this.end({ how: 'threw', error, ...(interrupted && { interrupted }) });
    }
  }

  private throwIfInterrupted(): void {
    if (this.interruption !== undefined) throw this.interruption;
  }

  private handle(context: JobContext): Promise<unknown> {
    if (!this.handler.transactional) return this.handler.run(context);
    return this.transaction((tx) => {
      this.ownTx = tx;
      return this.handler.run(context);
    });
  }

  private startTimeout(): void {
    const { timeout } = this.handler;
    if (timeout === undefined) return;
    this.stopTimer = startTimer(timeout, () => {
      const error = new PgQueueError(
        'JOB_TIMEOUT',
        `The attempt timed out: ${this.handler.origin} took longer than its timeout of ${timeout} ms.`,
      );
      this.end({ how: 'timed out', error });
      this.interrupt(error);
    });
  }

  /** The first end counts. */
  private end(end: AttemptEnd): void {
    const { tell } = this;
    if (tell === undefined) return;
    this.tell = undefined;
    this.stopTimer();
    if (this.saysProgress) this.services.progress.end(this.job);
    tell(this.completion ? this.outcomeAfter(this.completion, end) : this.outcomeOf(end));
  }

  private outcomeOf(end: AttemptEnd): Outcome {
    return outcomeOf(this.job, this.handler, end);
  }

  private outcomeAfter(completion: Completion, end: AttemptEnd): Outcome | undefined {
    if (completion.isCommitted) {
      if (end.how === 'threw') this.warnOfLateThrow(end.error);
      return undefined;
    }
    const error = completion.unknownOutcome;
    if (error !== undefined && end.how === 'returned')
      return this.outcomeOf({ how: 'threw', error });
    return this.outcomeOf(end);
  }

  private warnOfLateThrow(error: unknown): void {
    new Logger(`${this.kind} #${this.job.id}`).warn(
      `It threw after its transaction had completed the job, which is done: ${describeError(error).message}`,
    );
  }
}

/** What the handler is given. What few handlers ask for is made when they do. */
class Context implements JobContext {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly payload: unknown;
  readonly attempt: number;
  readonly maxAttempts: number;
  private ownLogger: Logger | undefined;
  private ownMeta: Readonly<Record<string, unknown>> | null | undefined;

  constructor(
    private readonly job: ClaimedJob,
    private readonly run: Pick<JobRun, 'signal' | 'transaction' | 'tx' | 'progress'>,
  ) {
    this.id = job.id;
    this.kind = job.kind;
    this.queue = job.queue;
    this.payload = JSON.parse(job.payload) as unknown;
    this.attempt = job.attempt;
    this.maxAttempts = job.maxAttempts;
  }

  get signal(): AbortSignal {
    return this.run.signal;
  }

  get tx(): QueueTransaction {
    return this.run.tx;
  }

  transaction<T>(work: (tx: QueueTransaction) => Promise<T>): Promise<T> {
    return this.run.transaction(work);
  }

  progress(value: unknown): void {
    this.run.progress(value);
  }

  get meta(): Readonly<Record<string, unknown>> | null {
    const { meta } = this.job;
    this.ownMeta ??= meta === null ? null : (JSON.parse(meta) as Record<string, unknown>);
    return this.ownMeta;
  }

  get createdAt(): Date {
    return new Date(this.job.createdAt);
  }

  get slot(): Date | undefined {
    return slotOfMeta(this.meta);
  }

  /** With the time, since another database counts its ids from 1 too. ASCII, so that it fits a header. */
  get idempotencyKey(): string {
    return `job-${this.id}-${Math.floor(this.job.createdAt)}`;
  }

  get logger(): Logger {
    this.ownLogger ??= new Logger(`${this.kind} #${this.id}`);
    return this.ownLogger;
  }
}
