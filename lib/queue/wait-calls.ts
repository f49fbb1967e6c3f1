import type { Observable } from 'rxjs';
import { PgQueueError } from '../contracts/errors.js';
import { END_TYPES, type JobEvent } from '../contracts/job-events.js';
import type { EnqueueAndWaitOptions, WaitOptions } from '../contracts/wait.js';
import type { JobStore } from '../store/job-store.js';
import type { JobRow } from '../store/statements/enqueue-many.js';
import { checkedId, checkedOptions, checkedTimeout } from './arguments.js';
import { checkedObject, draftJob, type KindDefaults } from './job-draft.js';
import { JobWaits } from './job-waits.js';

/** What the calls need of the application around them. */
export interface WaitCallPorts {
  readonly store: Pick<JobStore, 'stillPending' | 'getJobs'>;
  readonly events: { readonly events$: Observable<JobEvent> };
  /** What this application's handler of a kind says about its jobs, if it has one. */
  readonly defaultsOf: (
    kind: string,
  ) => (KindDefaults & { readonly keepDone: boolean }) | undefined;
}

/** The calls of `QueueService` that wait for a job: what they refuse, and until when they wait. */
export class WaitCalls {
  private readonly waits: JobWaits;

  /** @param enqueue adds a job, and answers its id when that is committed */
  constructor(
    private readonly ports: WaitCallPorts,
    private readonly enqueue: (job: JobRow) => Promise<string>,
  ) {
    this.waits = new JobWaits({
      stillPending: (ids, limit) => ports.store.stillPending(ids, limit),
      getJobs: (ids, limit) => ports.store.getJobs(ids, limit),
      onEnded: (listener) => {
        const subscription = ports.events.events$.subscribe(({ type, id }) => {
          if (END_TYPES.has(type)) listener(id);
        });
        return () => subscription.unsubscribe();
      },
    });
  }

  async enqueueAndWait(
    kind: string,
    payload: unknown,
    options: EnqueueAndWaitOptions,
  ): Promise<unknown> {
    const since = performance.now();
    const { timeout, ...jobOptions } = checkedObject('options', options);
    if ('tx' in jobOptions && jobOptions.tx !== undefined) throw waitInTransaction();
    const deadline = since + checkedTimeout('enqueueAndWait', timeout);
    const defaults = this.ports.defaultsOf(kind);
    const job = draftJob(kind, payload, jobOptions, defaults);
    if (defaults?.keepDone === false) throw resultNotKept(kind);
    return this.waits.wait(await this.enqueue(job), { since, deadline }, true);
  }

  async waitFor(id: string, options: WaitOptions): Promise<unknown> {
    const since = performance.now();
    const { timeout } = checkedOptions('waitFor', options, ['timeout']);
    const deadline = since + checkedTimeout('waitFor', timeout);
    const asStored = String(BigInt(checkedId(id))); // answers are found by it, and '007' is a number too
    return this.waits.wait(asStored, { since, deadline }, false);
  }
}

function waitInTransaction(): PgQueueError {
  return new PgQueueError(
    'INVALID_ARGUMENT',
    'enqueueAndWait takes no `tx`: the job would wait for your transaction, and your transaction for the job. Use enqueue with `tx`, and waitFor after the commit.',
  );
}

function resultNotKept(kind: string): PgQueueError {
  return new PgQueueError(
    'RESULT_NOT_KEPT',
    `Nobody can wait for jobs of kind '${kind}': its handler, or the module, has \`keepDone: false\`, and a result is read from the history. Give the handler \`keepDone: true\`, or use enqueue.`,
  );
}
