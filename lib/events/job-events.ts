import { Subject, type Observable } from 'rxjs';
import type { JobEvent, JobEventListener, JobEventSink } from '../contracts/job-events.js';
import type { JobRecord } from '../contracts/job.js';
import { callGuarded, GuardedObservable } from './guarded-observable.js';

/** What the events need of the queue around them. */
export interface JobEventsPorts {
  /** The rows of jobs, as far as there are any. */
  readonly getJobs: (ids: readonly string[]) => Promise<readonly JobRecord[]>;
  /** Logs that `what` failed. */
  readonly fault: (what: string, error: unknown) => void;
}

/**
 * The events of one queue instance in this process. They are delivered in order, in a turn of the event loop of
 * their own, so that whoever tells of something never runs, or waits for, the code that hears it.
 */
export class JobEvents implements JobEventSink {
  /** What `QueueService.events$` is. Completes when the application has shut down. */
  readonly events$: Observable<JobEvent>;
  private readonly subject = new Subject<JobEvent>();
  private undelivered: JobEvent[] = [];

  constructor(private readonly ports: JobEventsPorts) {
    this.events$ = new GuardedObservable<JobEvent>(
      (subscriber) => this.subject.subscribe(subscriber),
      (error) => ports.fault('A subscriber of events$', error),
    );
  }

  get isObserved(): boolean {
    return this.subject.observed;
  }

  emit(event: JobEvent): void {
    if (this.undelivered.push(event) === 1) setImmediate(() => this.deliver());
  }

  emitEnded(ids: readonly string[]): void {
    if (this.isObserved && ids.length > 0) void this.readEnds(ids);
  }

  /** Calls the methods with `@OnJobEvent` from now on. */
  listen(listeners: readonly JobEventListener[]): void {
    if (listeners.length === 0) return;
    this.subject.subscribe((event) => {
      for (const { type, kinds, origin, call } of listeners) {
        if (type !== event.type || (kinds && !kinds.has(event.kind))) continue;
        const report = (error: unknown) => this.ports.fault(`${origin} of '${type}' events`, error);
        callGuarded(() => call(event), report);
      }
    });
  }

  /** Delivers the last events, and completes. */
  close(): void {
    this.deliver();
    this.subject.complete();
  }

  private deliver(): void {
    const events = this.undelivered;
    this.undelivered = [];
    for (const event of events) this.subject.next(event);
  }

  /** Never rejects. */
  private async readEnds(ids: readonly string[]): Promise<void> {
    try {
      for (const job of await this.ports.getJobs(ids)) {
        const event = eventOfRow(job);
        if (event) this.emit(event);
      }
    } catch (error) {
      const what = `Reading how the jobs ${ids.join(', ')} ended, to tell of it,`;
      if (this.isObserved) this.ports.fault(what, error);
    }
  }
}

/** What to tell of a job that ended without an attempt of this process. */
function eventOfRow(job: JobRecord): JobEvent | undefined {
  const { id, kind, queue, attempts: attempt, maxAttempts, status, lastError, errors } = job;
  const about = { id, kind, queue, attempt, maxAttempts, duration: null };
  if (status === 'cancelled') return { type: 'cancelled', ...about, reason: lastError };
  if (status !== 'failed') return undefined; // it was started again meanwhile
  const { name, message, stack } = errors.at(-1) ?? { name: 'Error', message: lastError ?? '' };
  return { type: 'failed', ...about, error: { name, message, ...(stack && { stack }) } };
}
