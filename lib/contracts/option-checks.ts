import { parseDuration } from './duration.js';
import { PgQueueError } from './errors.js';

// Checks of single options, shared by forRoot, its worker and @JobHandler: each answers the value, or throws an
// error that names the option.

/** Limits of names, in bytes of UTF-8: index rows of PostgreSQL end at about 2,700 bytes. */
export const MAX_BYTES = { queue: 255, kind: 255, schedule: 255, dedupeKey: 1_024 } as const;

/** A whole number of at least 1. Shared with `@JobHandler`, whose options are checked the same way. */
export function wholeNumber(option: string, value: unknown, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 1_000_000) {
    return value;
  }
  throw invalid(option, value, 'a whole number from 1 to 1000000');
}

/** A duration in milliseconds. Shared with `@JobHandler`. */
export function duration(option: string, value: unknown, otherwise: number, least = 0): number {
  if (value === undefined) return otherwise;
  const ms = parseDuration(value);
  if (ms !== undefined && ms >= least) return ms;
  throw invalid(
    option,
    value,
    `a duration of at least ${least} ms: milliseconds, or a string such as '30s' or '10m'`,
  );
}

/** A queue's name. Shared with `@JobHandler`. */
export function queueName(option: string, value: unknown): string {
  if (isStorableName(value, MAX_BYTES.queue)) return value;
  throw invalid(option, value, `a name of 1 to ${MAX_BYTES.queue} bytes`);
}

/** Whether PostgreSQL can store the text and an index can hold it. */
export function isStorableName(value: unknown, maxBytes: number): value is string {
  return (
    typeof value === 'string' &&
    value !== '' &&
    Buffer.byteLength(value) <= maxBytes &&
    !value.includes('\0') &&
    value.isWellFormed()
  );
}

/** The error that every wrong option ends in. `value` is shown, so never pass a secret. */
export function invalid(option: string, value: unknown, expected: string): PgQueueError {
  return new PgQueueError(
    'INVALID_OPTION',
    `The option \`${option}\` is ${show(value)}, but it must be ${expected}.`,
  );
}

/** Misspelt options must not be ignored. */
export function refuseUnknown(what: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new PgQueueError(
    'INVALID_OPTION',
    `The ${what} have no \`${unknown}\`. Known are: ${known.join(', ')}.`,
  );
}

export function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function show(value: unknown): string {
  return typeof value === 'string'
    ? `'${value}'`
    : typeof value === 'object'
      ? 'an object'
      : String(value);
}

/** Now, and not at the first connect: that would look like an absent database. It may hold a password. */
export function checkConnectionString(option: string, value: unknown): void {
  // `pg` also takes the path of a socket, and a URL without a host before its path.
  const fits =
    typeof value === 'string' &&
    (value.startsWith('/') || URL.canParse(value.replace('@/', '@localhost/')));
  if (fits) return;
  throw new PgQueueError(
    'INVALID_OPTION',
    `The option \`${option}\` is no connection string. Give one such as postgres://user:password@host:5432/database, with special characters of the password percent-encoded.`,
  );
}
