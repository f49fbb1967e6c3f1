import { types } from 'node:util';
import { parseDuration } from '../contracts/duration.js';
import { PgQueueError } from '../contracts/errors.js';
import { DEFAULTS } from '../contracts/resolve-options.js';
import { isStorableText } from '../contracts/storable.js';
import type { FailedFilter } from '../contracts/queue.js';

const MAX_ID = 9_223_372_036_854_775_807n;
const FILTER_NAMES = [
  'kind',
  'queue',
  'failedAfter',
  'failedBefore',
] satisfies (keyof FailedFilter)[];

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
  for (const [name, value] of Object.entries(filter) as [string, unknown][]) {
    if (!(FILTER_NAMES as string[]).includes(name)) {
      throw invalid(`filter.${name}`, `one of: ${FILTER_NAMES.join(', ')}`);
    }
    if (value === undefined) continue;
    const isInstant = name === 'failedAfter' || name === 'failedBefore';
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
