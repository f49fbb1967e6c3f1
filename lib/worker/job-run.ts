import { Logger } from '@nestjs/common';
import { PgQueueError } from '../contracts/errors.js';
import type { RegisteredHandler } from '../contracts/handler.js';
import type { JobContext } from '../contracts/job.js';
import { slotOfMeta } from '../contracts/schedule.js';
import { startTimer } from '../contracts/timer.js';
import type { ClaimedJob } from '../store/statements/exchange.js';
import { outcomeOf, type AttemptEnd, type Outcome } from './outcome.js';

/**
 * One attempt, from the claim to its outcome. The attempt ends when the handler ends, when its time is
 * over, or when nobody waits any more; whatever the handler does after that is ignored.
 */
export class JobRun {
  /** Made for handlers that ask for their signal: it took 3 µs of a job. */
  private controller: AbortController | undefined;
  private interruption: PgQueueError | undefined;
  private stopTimer: () => void = () => {};
  private tell: ((outcome: Outcome) => void) | undefined;

  constructor(
    readonly job: ClaimedJob,
    readonly handler: RegisteredHandler,
    /** The id under which the job was claimed: only that one may settle it. */
    readonly workerId: string,
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

  /** Runs the handler. `ended` is called once; every job would pay for a promise. */
  run(ended: (outcome: Outcome) => void): void {
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

  private async callHandler(): Promise<void> {
    try {
      const context = new Context(this.job, this);
      this.end({ how: 'returned', value: await this.handler.run(context) });
    } catch (error) {
      const interrupted = this.interruption;
      this.end({ how: 'threw', error, ...(interrupted && { interrupted }) });
    }
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
    tell(outcomeOf(this.job, this.handler, end));
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
    private readonly run: { readonly signal: AbortSignal },
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
