import { types } from 'node:util';
import { parseDuration } from '../contracts/duration.js';
import { PgQueueError } from '../contracts/errors.js';
import { DEFAULTS } from '../contracts/resolve-options.js';
import { isStorableName, MAX_BYTES } from '../contracts/option-checks.js';
import { isStorableText } from '../contracts/storable.js';
import type { FailedFilter, PauseTarget, PendingFilter } from '../contracts/queue.js';

const MAX_ID = 9_223_372_036_854_775_807n;
const FAILED_NAMES = [
  'kind',
  'queue',
  'failedAfter',
  'failedBefore',
] satisfies (keyof FailedFilter)[];
const PENDING_NAMES = [
  'kind',
  'queue',
  'createdAfter',
  'createdBefore',
] satisfies (keyof PendingFilter)[];
const INSTANTS = new Set(['failedAfter', 'failedBefore', 'createdAfter', 'createdBefore']);

/** @throws PgQueueError `INVALID_ARGUMENT` if the text can't be the id of a job */
export function checkedId(id: unknown): string {
  if (typeof id === 'string' && /^\d{1,19}$/.test(id) && BigInt(id) <= MAX_ID) return id;
  throw invalid('id', 'a string of digits, as `enqueue` answered it');
}

/** @throws PgQueueError `INVALID_ARGUMENT` naming the member that is wrong: a misspelt filter must not match all */
export function checkedFilter(filter: FailedFilter): FailedFilter {
  if (filter === null || typeof filter !== 'object') {
    throw invalid('argument of retry', 'an id (a string), a list of ids, or a filter (an object)');
  }
  return checkedMembers(filter, FAILED_NAMES);
}

/** The same for methods that take nothing but a filter. */
export function checkedFailedFilter(method: string, filter: FailedFilter): FailedFilter {
  return checkedMembers(checkedFilterObject(method, filter), FAILED_NAMES);
}

/** The same for pending jobs. */
export function checkedPendingFilter(method: string, filter: PendingFilter): PendingFilter {
  return checkedMembers(checkedFilterObject(method, filter), PENDING_NAMES);
}

/** @throws PgQueueError `INVALID_ARGUMENT` unless it names a queue or a kind, and not both */
export function checkedPauseTarget(method: string, target: PauseTarget): PauseTarget {
  const { queue, kind, ...others } = (target ?? {}) as { queue?: unknown; kind?: unknown };
  if ((queue === undefined) === (kind === undefined) || Object.keys(others).length > 0) {
    throw invalid(`argument of ${method}`, '{ queue } or { kind }');
  }
  return kind === undefined
    ? { queue: checkedName('queue', queue, MAX_BYTES.queue) }
    : { kind: checkedName('kind', kind, MAX_BYTES.kind) };
}

/** @throws PgQueueError `INVALID_ARGUMENT` if the text can't be the name of a queue */
export function checkedQueueName(queue: unknown): string {
  return checkedName('queue', queue, MAX_BYTES.queue);
}

/** @throws PgQueueError `INVALID_ARGUMENT` unless it is null or a number of slots */
export function checkedConcurrency(value: unknown): number | null {
  if (value === null) return null;
  if (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 1_000_000)
    return Number(value);
  throw invalid(
    'concurrency',
    'a whole number from 1 to 1000000, or null for the process’s options',
  );
}

function checkedName(what: string, value: unknown, maxBytes: number): string {
  if (isStorableName(value, maxBytes)) return value;
  throw invalid(what, `text of 1 to ${maxBytes} bytes without NUL`);
}

function checkedFilterObject<T extends object>(method: string, filter: T): T {
  if (filter !== null && typeof filter === 'object' && !Array.isArray(filter)) return filter;
  throw invalid(`argument of ${method}`, 'a filter (an object); `{}` names all jobs');
}

function checkedMembers<T extends object>(filter: T, known: readonly string[]): T {
  for (const [name, value] of Object.entries(filter) as [string, unknown][]) {
    if (!known.includes(name)) {
      throw invalid(`filter.${name}`, `one of: ${known.join(', ')}`);
    }
    if (value === undefined) continue;
    const isInstant = INSTANTS.has(name);
    const fits = isInstant
      ? isUsualDate(value)
      : typeof value === 'string' && isStorableText(value);
    if (!fits) {
      throw invalid(
        `filter.${name}`,
        isInstant ? 'a Date of the years 1 to 9999' : 'text without NUL',
      );
    }
  }
  return filter;
}

/** @throws PgQueueError `INVALID_ARGUMENT` if there is a member that the method does not know */
export function checkedOptions<T extends object>(
  method: string,
  options: T,
  known: readonly (keyof T & string)[],
): T {
  if (options === null || typeof options !== 'object') {
    throw invalid(`options of ${method}`, 'an object');
  }
  const unknown = Object.keys(options).find((name) => !known.some((option) => option === name));
  if (unknown === undefined) return options;
  throw new PgQueueError(
    'INVALID_ARGUMENT',
    `${method} has no option \`${unknown}\`. Known are: ${known.join(', ')}.`,
  );
}

/** @throws PgQueueError `INVALID_ARGUMENT` if it is no time that somebody can wait; milliseconds */
export function checkedTimeout(method: string, timeout: unknown = DEFAULTS.waitTimeout): number {
  const ms = parseDuration(timeout);
  if (ms !== undefined && ms >= 1) return ms;
  throw invalid(`timeout of ${method}`, "at least 1 ms: milliseconds, or a string such as '30s'");
}

function isUsualDate(value: unknown): boolean {
  if (!types.isDate(value)) return false;
  const year = value.getUTCFullYear();
  return year >= 1 && year <= 9_999;
}

function invalid(what: string, expected: string): PgQueueError {
  return new PgQueueError('INVALID_ARGUMENT', `\`${what}\` must be ${expected}.`);
}
