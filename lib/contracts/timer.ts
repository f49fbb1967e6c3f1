import { MAX_TIMER_MS } from './delay.js';

/**
 * Calls `fire` once, `ms` from now, and answers how to stop that. Any length: Node's own timers fire at
 * once past 2^31-1 ms, so a long wait is made of short ones.
 */
export function startTimer(ms: number, fire: () => void): () => void {
  let timer: NodeJS.Timeout;
  const wait = (left: number): void => {
    const step = Math.min(left, MAX_TIMER_MS);
    timer = setTimeout(() => (left > step ? wait(left - step) : fire()), step);
  };
  wait(ms);
  return () => clearTimeout(timer);
}
