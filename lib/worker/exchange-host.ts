import type { ClaimedJob, Lane } from '../store/statements/exchange.js';
import type { AttemptEvents } from './attempt-events.js';
import type { Lease } from './lease.js';

/** What one exchange came to. */
export interface Turn {
  /** Due jobs that were found. */
  readonly found: number;
  /** Whether more could have been claimed: what was looked at is empty now. */
  readonly hasSpare: boolean;
  /** Whether everything was looked at from its start. */
  readonly isFull: boolean;
}

export const NOTHING_ASKED: Turn = { found: 0, hasSpare: false, isFull: false };

/** What the loop needs of the worker around it. */
export interface ExchangeHost {
  /** Who tells others how attempts ended. */
  readonly attempts: Pick<AttemptEvents, 'answered' | 'spent'>;
  /** Under which id to claim; undefined while there is none. */
  currentLease(): Lease | undefined;
  /** What to ask for now, by how long an exchange takes in milliseconds. Empty = nothing is to be claimed. */
  lanes(roundTrip: number): Lane[];
  /** How many jobs may still be claimed over all lanes; undefined = no bound. */
  budget(): number | undefined;
  /** Ids of jobs that are in memory and not settled yet. */
  heldJobs(workerId: string): string[];
  /** A job is this worker's now. It does not begin before {@link begin}. */
  claimed(job: ClaimedJob, workerId: string): void;
  /** Claimed jobs may begin. */
  begin(): void;
  /** A job turned out not to be this worker's any more: nothing was stored. */
  lostJob(id: string): void;
  /** A turn has ended. Answers when to look again, in milliseconds, if nothing rings before. */
  exchanged(turn: Turn): number;
  /** Today has no partition in the history. */
  missingDay(): void;
}
