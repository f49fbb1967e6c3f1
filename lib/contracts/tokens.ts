/** The name of the instance that has none. */
export const DEFAULT_INSTANCE = 'default';

/** Injection tokens of one queue instance. Strings, so that two copies of the package agree. */
export function instanceToken(part: string, instance: string = DEFAULT_INSTANCE): string {
  return `nestjs-pg-queue:${instance}:${part}`;
}
