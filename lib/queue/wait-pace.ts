/** Milliseconds between two looks at a job: at first, and at most. */
const DELAY_MS = { first: 5, most: 250 } as const;
/** The last look before the time limit goes out so long before it that its answer is there in time. */
const LAST_LOOK_MS = 20;

/** When somebody began to wait, and until when: milliseconds by the monotonic clock. */
export interface WaitSpan {
  readonly since: number;
  readonly deadline: number;
}

/**
 * How long until the next look at a job that has been waited for so long: a quarter of that. So a result comes
 * late by a quarter of the time it took and by 250 ms at most, and a job that takes a minute is looked at about
 * 260 times.
 */
export function lookDelay(waited: number): number {
  return Math.min(Math.max(waited / 4, DELAY_MS.first), DELAY_MS.most);
}

/** When to look next if a look goes out now. */
export function nextLook({ since, deadline }: WaitSpan, now: number): number {
  const next = now + lookDelay(now - since);
  const last = deadline - LAST_LOOK_MS;
  return now < last ? Math.min(next, last) : next;
}

/** Whether to take a wait along in a look that goes out now: what is nearly due shares the statement. */
export function goesAlong({ since }: WaitSpan, dueAt: number, now: number): boolean {
  return dueAt - now <= lookDelay(now - since) / 2;
}
