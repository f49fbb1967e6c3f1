import type { JobEvent, JobEventSink } from '../contracts/job-events.js';
import type { Settlement } from '../store/statements/exchange.js';
import type { JobRun } from './job-run.js';

/** What an event says of an attempt that has ended. */
interface EndedAttempt {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly duration: number | null;
  readonly hasBegun: boolean;
}

/**
 * Tells of this worker's attempts: that they begin, and how they ended once that is stored. While nobody listens
 * a job costs one look at a flag when it begins, one when it ends, and none when it is settled.
 */
export class AttemptEvents {
  private readonly begunAt = new WeakMap<JobRun, number>();
  /** Attempts whose settlement the database has not confirmed. */
  private readonly unconfirmed = new Map<string, EndedAttempt>();

  constructor(private readonly sink: JobEventSink) {}

  started(run: JobRun): void {
    if (!this.sink.isObserved) return;
    this.begunAt.set(run, performance.now());
    const { id, kind, queue, attempt, maxAttempts } = run.job;
    this.sink.emit({ type: 'started', id, kind, queue, attempt, maxAttempts });
  }

  /** An attempt has ended, or was handed back before it began. It is told of when that is stored. */
  ended(run: JobRun, settlement: Settlement | undefined): void {
    if (!this.sink.isObserved) return;
    const { id, kind, queue, attempt, maxAttempts } = run.job;
    const begunAt = this.begunAt.get(run);
    const duration = begunAt === undefined ? null : performance.now() - begunAt;
    if (settlement === undefined) {
      // Its own transaction has completed it.
      this.sink.emit({ type: 'completed', id, kind, queue, attempt, maxAttempts, duration });
      return;
    }
    const hasBegun = begunAt !== undefined || settlement.action !== 'release';
    const ended = { id, kind, queue, attempt, maxAttempts, duration, hasBegun };
    this.unconfirmed.set(keyOf(settlement), ended);
  }

  /** A job was due without any attempts left: it is a failed job now. */
  spent(id: string): void {
    this.sink.emitEnded([id]);
  }

  /** The database has answered: all of these are stored, but those that are busy, or lost. */
  answered(
    settlements: readonly Settlement[],
    busy: ReadonlySet<string>,
    lost: ReadonlySet<string>,
  ): void {
    if (this.unconfirmed.size === 0) return;
    for (const settlement of settlements) {
      if (busy.has(settlement.id)) continue;
      const key = keyOf(settlement);
      const ended = this.unconfirmed.get(key);
      if (ended === undefined) continue;
      this.unconfirmed.delete(key);
      const event = eventOf(ended, settlement, lost.has(settlement.id));
      if (event) this.sink.emit(event);
    }
  }
}

/** A lease number is never used twice for a job, and the settlement may be replaced on its way. */
function keyOf({ id, leaseNo }: Settlement): string {
  return `${id}:${leaseNo}`;
}

/** What to tell of an attempt whose end was answered; undefined = nothing, since it had not begun. */
function eventOf(
  ended: EndedAttempt,
  settlement: Settlement,
  isLost: boolean,
): JobEvent | undefined {
  const { hasBegun, ...attempt } = ended;
  if (!hasBegun) return undefined;
  if (isLost) return { type: 'leaseLost', ...attempt };
  if (settlement.action === 'done') return { type: 'completed', ...attempt };
  const { action, error = { name: 'Error', message: '' }, delayMs, runAt } = settlement;
  const delay = delayMs ?? Math.max(0, (runAt?.getTime() ?? 0) - Date.now());
  switch (action) {
    case 'retry':
      return { type: 'retried', ...attempt, error, delay };
    case 'release':
      return { type: 'released', ...attempt, delay };
    case 'fail':
      return { type: 'failed', ...attempt, error };
    case 'cancel':
      return { type: 'cancelled', ...attempt, reason: settlement.error?.message ?? null };
  }
}
