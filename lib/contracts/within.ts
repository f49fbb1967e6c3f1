/**
 * What `work` resolves to, or a rejection with `timeout()` if that takes longer than `ms`. The work itself
 * goes on; what becomes of it then is ignored. No timer is left behind.
 */
export async function within<T>(ms: number, work: Promise<T>, timeout: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(timeout()), ms);
  });
  work.catch(ignore);
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

function ignore(): void {}
