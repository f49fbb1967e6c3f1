import type { JobErrorRecord, JobKind } from './job.js';

/** What every event of a job says. */
interface EventOf<Type extends string> {
  readonly type: Type;
  readonly id: string;
  readonly kind: JobKind;
  readonly queue: string;
}

/** What every event of an attempt says. */
interface AttemptEventOf<Type extends string> extends EventOf<Type> {
  /** 1 at the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
}

interface EndedAttemptEventOf<Type extends string> extends AttemptEventOf<Type> {
  /** Milliseconds that the attempt took; null if nobody listened yet when it began, or it did not run here. */
  readonly duration: number | null;
}

/** What was thrown, as it is stored: bounded, without what PostgreSQL can't hold. */
export type JobEventError = Pick<JobErrorRecord, 'name' | 'message' | 'stack'>;

/** `enqueue` or `enqueueMany` of this process made a job; a duplicate makes none. */
export interface JobEnqueuedEvent extends EventOf<'enqueued'> {
  /** False: it was enqueued with `tx`, and exists once that transaction has committed. */
  readonly committed: boolean;
}

/** An attempt begins in this process. */
export type JobStartedEvent = AttemptEventOf<'started'>;

/** A job has succeeded, and that is stored. Its result: `queue.get(id)`. */
export type JobCompletedEvent = EndedAttemptEventOf<'completed'>;

/** An attempt failed, and another one follows. */
export interface JobRetriedEvent extends EndedAttemptEventOf<'retried'> {
  readonly error: JobEventError;
  /** Milliseconds until the next attempt is due. */
  readonly delay: number;
}

/** A job has failed for good: it is in `failed_jobs`. Also if its worker died and this process cleared up after it. */
export interface JobFailedEvent extends EndedAttemptEventOf<'failed'> {
  readonly error: JobEventError;
}

/** A job has ended as cancelled: its handler threw a `CancelJob`, or this process called `cancel`. */
export interface JobCancelledEvent extends EndedAttemptEventOf<'cancelled'> {
  /** What the handler said; null if nobody did. */
  readonly reason: string | null;
}

/** An attempt was given back without counting: snoozed, or ended by a shutdown or a lost lease. */
export interface JobReleasedEvent extends EndedAttemptEventOf<'released'> {
  /** Milliseconds until the job is due again. */
  readonly delay: number;
}

/** An attempt ended when the job was no longer this worker's: nothing of it was stored, someone else runs the job. */
export type JobLeaseLostEvent = EndedAttemptEventOf<'leaseLost'>;

/** What happens to jobs in this process. `type` says what; later versions may add some, so have a `default`. */
export type JobEvent =
  | JobEnqueuedEvent
  | JobStartedEvent
  | JobCompletedEvent
  | JobRetriedEvent
  | JobFailedEvent
  | JobCancelledEvent
  | JobReleasedEvent
  | JobLeaseLostEvent;

export type JobEventType = JobEvent['type'];

/** The event of a type: `JobEventOf<'failed'>`. */
export type JobEventOf<Type extends JobEventType> = Extract<JobEvent, { readonly type: Type }>;

/** Every type, for checks. */
export const JOB_EVENT_TYPES = [
  'enqueued',
  'started',
  'completed',
  'retried',
  'failed',
  'cancelled',
  'released',
  'leaseLost',
] as const satisfies readonly JobEventType[];

/** The types after which a job is not pending any more. */
export const END_TYPES: ReadonlySet<JobEventType> = new Set(['completed', 'failed', 'cancelled']);

/** Options of `@OnJobEvent`. */
export interface JobEventOptions {
  /** Only events of jobs of this kind, or of these. Default: of all. */
  readonly kind?: JobKind | readonly JobKind[] | undefined;
  /** The named instance whose events these are. Default: the one without a name. */
  readonly instance?: string | undefined;
}

/** A method with `@OnJobEvent`, ready to be called. */
export interface JobEventListener {
  readonly type: JobEventType;
  /** undefined = all. */
  readonly kinds: ReadonlySet<string> | undefined;
  /** `Class.method`, for messages. */
  readonly origin: string;
  readonly call: (event: JobEvent) => unknown;
}

/** Where the parts of the queue say what happens. Nothing that it does reaches back into them. */
export interface JobEventSink {
  /** Whether anybody listens: if not, no event need be made. */
  readonly isObserved: boolean;
  emit(event: JobEvent): void;
  /** Jobs that have ended without an attempt of this process: what to tell of them stands in their rows. */
  emitEnded(ids: readonly string[]): void;
}

/** Nobody listens. */
export const NO_EVENTS: JobEventSink = { isObserved: false, emit: () => {}, emitEnded: () => {} };
