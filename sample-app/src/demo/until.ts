import { setTimeout as sleep } from 'node:timers/promises';

/** The promise's value, unless the signal comes first: then its reason is thrown. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) return abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.finally(() => signal.removeEventListener('abort', abort)).then(resolve, reject);
  });
}

/** Looks ten times a second until there is an answer, or the signal comes: then its reason is thrown. */
export async function poll<T>(look: () => Promise<T | undefined>, signal: AbortSignal): Promise<T> {
  for (;;) {
    const found = await orAborted(look(), signal);
    if (found !== undefined) return found;
    await orAborted(sleep(100), signal);
  }
}
