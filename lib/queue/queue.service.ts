import { Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { EnqueueOptions, EnqueueResult, NewJob } from '../contracts/enqueue.js';
import { DuplicateJobError, PgQueueError } from '../contracts/errors.js';
import type { JobEvent, JobEventSink } from '../contracts/job-events.js';
import type { JobKind, JobRecord, PayloadOf, ResultOf } from '../contracts/job.js';
import type {
  CancelOutcome,
  DrainOptions,
  DrainResult,
  FailedFilter,
  JobCounts,
  RetryResult,
} from '../contracts/queue.js';
import type { QueueTransaction, TransactionHandle } from '../contracts/transaction.js';
import type { EnqueueAndWaitOptions, WaitOptions } from '../contracts/wait.js';
import { callersTransaction } from '../store/callers-transaction.js';
import type { JobStore } from '../store/job-store.js';
import type { EnqueuedRow, JobRow } from '../store/statements/enqueue-many.js';
import { Limits } from './limits.js';
import { EnqueueBatcher } from './enqueue-batcher.js';
import { QueueSchedules } from './schedules.js';
import { checkedFilter, checkedId, checkedOptions } from './arguments.js';
import { checkedList, checkedObject, checkTotal, draftJob } from './job-draft.js';
import { QueueControl } from './queue-control.js';
import { sendJobs } from './send-jobs.js';
import { WaitCalls, type WaitCallPorts } from './wait-calls.js';

/** How many failed jobs a retry by filter moves in one transaction. */
const RETRY_BATCH = 500;

/** What the service needs of the application around it. */
export interface QueueServicePorts extends WaitCallPorts {
  readonly store: JobStore;
  readonly events: JobEventSink & { readonly events$: Observable<JobEvent> };
  readonly drain: (options: DrainOptions) => Promise<DrainResult>;
  /** See {@link QueueSchedules}. */
  readonly schedulesChanged: () => void;
}

/** Enqueues jobs and looks after them. Inject it anywhere; a named instance with `@InjectQueue('name')`. */
@Injectable()
export class QueueService extends QueueControl {
  /** How many jobs run and how often they begin, over all workers. */
  readonly limits: Limits;
  /** Jobs at fixed times: what `@JobSchedule` declares, and what is created here. */
  readonly schedules: QueueSchedules;
  private readonly batcher: EnqueueBatcher;
  private readonly waits: WaitCalls;

  /** @internal */
  constructor(private readonly ports: QueueServicePorts) {
    super(ports.store);
    this.limits = new Limits(ports.store);
    this.batcher = new EnqueueBatcher((jobs, lockTimeout) =>
      sendJobs(ports, jobs, { lockTimeout }),
    );
    this.schedules = new QueueSchedules({
      store: ports.store,
      defaultsOf: ports.defaultsOf,
      changed: ports.schedulesChanged,
    });
    this.waits = new WaitCalls(ports, async (job) => {
      return resultOf(job, await this.batcher.enqueue(job)).id;
    });
  }

  /**
   * What happens to jobs in this process, from the subscription on; completes when the application has shut down.
   * What a subscriber throws is logged, and ends neither it nor the worker. While nobody subscribes it costs nothing.
   */
  get events$(): Observable<JobEvent> {
    return this.ports.events.events$;
  }

  /**
   * Adds a job. With `tx` it exists if and only if your transaction commits; without, it is committed when
   * the promise resolves.
   * @throws InvalidJobError before any SQL; DuplicateJobError if `dedupe` says so; `DEDUPE_HOLDER_HIDDEN`; without
   *   `tx` also `OUTCOME_UNKNOWN` and `DATABASE_TIMEOUT`, after which the job may or may not exist
   */
  async enqueue<K extends JobKind>(
    kind: K,
    ...[payload, options = {}]: undefined extends PayloadOf<K>
      ? [payload?: PayloadOf<K>, options?: EnqueueOptions]
      : [payload: PayloadOf<K>, options?: EnqueueOptions]
  ): Promise<EnqueueResult> {
    const { tx, ...jobOptions } = checkedObject('options', options);
    const job = draftJob(kind, payload, jobOptions, this.ports.defaultsOf(kind));
    if (tx === undefined) return resultOf(job, await this.batcher.enqueue(job));
    const [result] = await this.insert([job], tx);
    return result as EnqueueResult;
  }

  /**
   * Adds a job, and resolves to what its handler returned, wherever that runs: as JSON keeps it, and undefined if
   * it returned nothing. With a dedupe key that a pending job holds it waits for that one. It holds no connection
   * meanwhile. A job that waits for another one keeps its slot: give the two different queues.
   * @throws InvalidJobError as {@link enqueue}; `RESULT_NOT_KEPT` if the kind's handler says `keepDone: false`;
   *   JobWaitError as {@link waitFor}, with the job's id
   */
  async enqueueAndWait<K extends JobKind>(
    kind: K,
    ...[payload, options = {}]: undefined extends PayloadOf<K>
      ? [payload?: PayloadOf<K>, options?: EnqueueAndWaitOptions]
      : [payload: PayloadOf<K>, options?: EnqueueAndWaitOptions]
  ): Promise<ResultOf<K>> {
    return this.waits.enqueueAndWait(kind, payload, options) as Promise<ResultOf<K>>;
  }

  /**
   * Resolves to what the handler of a job returned, once it has ended, or at once if it has: as
   * {@link enqueueAndWait}.
   * @throws JobWaitError `JOB_FAILED` or `JOB_CANCELLED`, with the `job` and its last error; `WAIT_TIMEOUT`, after
   *   which the job goes on; `JOB_NOT_FOUND`, also before the commit of the transaction that enqueued it;
   *   `RESULT_NOT_KEPT`
   */
  async waitFor<K extends JobKind = JobKind>(
    id: string,
    options: WaitOptions = {},
  ): Promise<ResultOf<K>> {
    return this.waits.waitFor(id, options) as Promise<ResultOf<K>>;
  }

  /**
   * Adds jobs in one statement: all or none. Answers are in the order of the jobs.
   * @throws as {@link enqueue}; the path of an InvalidJobError begins with `jobs[index]`
   */
  async enqueueMany<const Kinds extends readonly JobKind[]>(
    jobs: readonly [...{ [I in keyof Kinds]: NewJob<Kinds[I]> }],
    options: { readonly tx?: TransactionHandle | undefined } = {},
  ): Promise<EnqueueResult[]> {
    const { tx } = checkedOptions('enqueueMany', options, ['tx']);
    const rows = checkedList(jobs as readonly NewJob[]).map((job, index) => {
      const { kind, payload, ...options } = checkedObject(`jobs[${index}]`, job);
      return draftJob(kind, payload, options, this.ports.defaultsOf(kind), `jobs[${index}].`);
    });
    checkTotal(rows);
    return rows.length === 0 ? [] : this.insert(rows, tx);
  }

  /**
   * Runs `work` in a transaction on one client: commits when it resolves, rolls back when it throws. Give
   * the client on as `tx`. It holds a connection meanwhile, so keep slow calls outside.
   * @throws what `work` throws; `TRANSACTION_ABORTED` if a statement failed and `work` hid that. The `tx` throws
   *   `TRANSACTION_ENDED` when it is used after that
   */
  transaction<T>(work: (tx: QueueTransaction) => Promise<T>): Promise<T> {
    return callersTransaction(this.ports.store.database, work);
  }

  /** A job, wherever it stands; undefined if there is none (its history may be over). */
  async get<K extends JobKind = JobKind>(id: string): Promise<JobRecord<K> | undefined> {
    return this.ports.store.getJob(checkedId(id)) as Promise<JobRecord<K> | undefined>;
  }

  /**
   * Failed jobs back to work, under their ids and with attempts reset: one, several, or all that match a
   * filter (`{}` = all). A job whose dedupe key is held by a pending one stays failed and is in `conflicts`.
   */
  async retry(which: string | readonly string[] | FailedFilter): Promise<RetryResult> {
    const result: RetryResult = { retried: [], conflicts: [], notFailed: [] };
    if (typeof which === 'string' || Array.isArray(which)) {
      const ids = (typeof which === 'string' ? [which] : (which as readonly string[])).map(
        checkedId,
      );
      await this.retryInto(result, ids);
      return result;
    }
    const filter = checkedFilter(which as FailedFilter);
    for (let after = '0'; ;) {
      const ids = await this.ports.store.failedIds(filter, after, RETRY_BATCH);
      await this.retryInto(result, ids);
      const last = ids.at(-1);
      if (last === undefined || ids.length < RETRY_BATCH) return result;
      after = last;
    }
  }

  /**
   * Ends a pending job: one that waits now, one that runs by aborting its signal, wherever that is. It goes to the
   * history as `cancelled`, see {@link CancelOutcome}.
   */
  async cancel(id: string): Promise<CancelOutcome> {
    const outcome = await this.ports.store.cancel(checkedId(id));
    if (outcome === 'cancelled') this.ports.events.emitEnded([id]);
    return outcome;
  }

  /** How many jobs are pending or failed, over all queues. Done ones are history, which may be too large to count. */
  async counts(): Promise<JobCounts> {
    const counts = {
      queued: 0,
      scheduled: 0,
      waiting: 0,
      running: 0,
      failed: 0,
      withoutHandler: 0,
    };
    for (const { status, waitsFor, count } of await this.ports.store.countJobs()) {
      counts[status as keyof JobCounts] += count;
      if (waitsFor === 'handler') counts.withoutHandler += count;
    }
    return counts;
  }

  /**
   * Runs what is due in this process until nothing is left or a bound is reached, whether or not it has a
   * worker: for serverless functions, scripts and tests. Rescues jobs of dead workers first.
   */
  async drain(options: DrainOptions = {}): Promise<DrainResult> {
    return this.ports.drain(checkedOptions('drain', options, ['max', 'timeout', 'queues']));
  }

  private async insert(
    jobs: readonly JobRow[],
    tx: TransactionHandle | undefined,
  ): Promise<EnqueueResult[]> {
    if (tx !== undefined && typeof tx?.query !== 'function') {
      throw new PgQueueError(
        'INVALID_ARGUMENT',
        'The `tx` has no method query(text, values). Give a pg client, a TypeORM manager or query runner, or leave it out.',
      );
    }
    const answers = await sendJobs(this.ports, jobs, { tx, allOrNothing: true });
    const refused = answers.find(({ outcome }) => outcome === 'refused');
    if (refused !== undefined) throw duplicateJob(jobs[refused.ordinal], refused.id);
    return answers.map((answer) => resultOf(jobs[answer.ordinal], answer));
  }

  private async retryInto(result: RetryResult, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const { id, outcome, holder } of await this.ports.store.retryMany(ids)) {
      if (outcome === 'retried') result.retried.push(id);
      else if (outcome === 'not_failed') result.notFailed.push(id);
      else result.conflicts.push({ id, holder });
    }
  }
}

function resultOf(job: JobRow | undefined, row: EnqueuedRow): EnqueueResult {
  const { id, inserted, outcome } = row;
  if (id === null) throw holderHidden(job);
  if (outcome === 'replaced') return { id, outcome };
  if (!inserted && job?.dedupeRule?.onDuplicate === 'throw') throw duplicateJob(job, id);
  return { id, outcome: inserted ? 'inserted' : 'duplicate' };
}

function duplicateJob(job: JobRow | undefined, holder: string | null): PgQueueError {
  if (holder === null) return holderHidden(job);
  return new DuplicateJobError(job?.kind ?? '', job?.dedupeKey ?? '', holder);
}

function holderHidden(job: JobRow | undefined): PgQueueError {
  return new PgQueueError(
    'DEDUPE_HOLDER_HIDDEN',
    `A job of kind ${job?.kind} holds the dedupe key, but this transaction can't see it: its snapshot is older (repeatable read or serializable), or row security hides the job. Enqueue in a READ COMMITTED transaction, or repeat this one.`,
  );
}
