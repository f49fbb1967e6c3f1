import { PgQueueError } from '../contracts/errors.js';
import { errorCode } from '../store/errors.js';
import { keyOf, LOCK_NOT_AVAILABLE, type EnqueueCall, type SendJobs } from './enqueue-call.js';

/** Calls that wait in the database, each on a connection, which others need. */
const MOST_IN_DATABASE = 2;
/** How long one of them waits before it is another key's turn. */
const TURN_MS = 250;
/** How long a call waits in all. */
const LIMIT_MS = 30_000;

/**
 * Enqueues whose dedupe key somebody holds in a transaction that is still open. For each key one call tries
 * again, a few keys at a time; the others wait for its answer in memory.
 */
export class HeldKeys {
  private readonly calls = new Map<string, EnqueueCall[]>();
  private readonly turns: string[] = [];
  private inDatabase = 0;

  /** @param free takes the calls of a key that is not held any more */
  constructor(
    private readonly send: SendJobs,
    private readonly free: (calls: readonly EnqueueCall[]) => void,
  ) {}

  has(call: EnqueueCall): boolean {
    return this.calls.has(keyOf(call));
  }

  add(call: EnqueueCall): void {
    const key = keyOf(call);
    const calls = this.calls.get(key);
    if (calls !== undefined) {
      calls.push(call);
      return;
    }
    this.calls.set(key, [call]);
    this.turns.push(key);
    this.goOn();
  }

  private goOn(): void {
    while (this.inDatabase < MOST_IN_DATABASE) {
      const key = this.turns.shift();
      if (key === undefined) return;
      void this.tryKey(key);
    }
  }

  private async tryKey(key: string): Promise<void> {
    const first = this.calls.get(key)?.[0];
    if (first === undefined) return;
    this.inDatabase += 1;
    try {
      const [row] = await this.send([first.job], TURN_MS);
      if (row !== undefined) first.resolve(row);
      this.end(key);
    } catch (error) {
      const isHeld = errorCode(error) === LOCK_NOT_AVAILABLE;
      if (!isHeld) {
        first.reject(error);
        this.end(key);
      } else {
        this.dropTooOld(key);
      }
    }
    this.inDatabase -= 1;
    this.goOn();
  }

  /** The key is free: whoever waited behind the first call, or came meanwhile, goes on. */
  private end(key: string): void {
    const [, ...others] = this.calls.get(key) ?? [];
    this.calls.delete(key);
    this.free(others);
  }

  /** The key is still held: it gets another turn if any of its calls may go on waiting. */
  private dropTooOld(key: string): void {
    const oldest = performance.now() - LIMIT_MS;
    const calls = this.calls.get(key) ?? [];
    for (const call of calls.filter(({ since }) => since <= oldest)) call.reject(stillHeld(call));
    const left = calls.filter(({ since }) => since > oldest);
    if (left.length === 0) this.calls.delete(key);
    else {
      this.calls.set(key, left);
      this.turns.push(key);
    }
  }
}

function stillHeld({ job }: EnqueueCall): PgQueueError {
  return new PgQueueError(
    'DATABASE_TIMEOUT',
    `Another transaction has held the dedupe key of this job of kind ${job.kind} for ${LIMIT_MS} ms without an end. The job was not added; look for a transaction that was left open.`,
  );
}
