import { types } from 'node:util';
import { MAX_DURATION_MS, parseDuration } from '../contracts/duration.js';
import type { JobOptions } from '../contracts/enqueue.js';
import { InvalidJobError } from '../contracts/errors.js';
import { isStorableName, MAX_BYTES } from '../contracts/option-checks.js';
import { DEFAULTS } from '../contracts/resolve-options.js';
import type { JobRow } from '../store/statements/enqueue-many.js';
import { draftDedupe } from './dedupe-options.js';
import { jsonText } from './json-text.js';

/** What the application's handler of a kind says about its jobs. */
export interface KindDefaults {
  readonly queue: string;
  readonly maxAttempts: number;
}

const OPTION_NAMES: readonly string[] = [
  'queue',
  'priority',
  'runAt',
  'delay',
  'deadline',
  'maxAttempts',
  'dedupe',
  'meta',
] satisfies (keyof JobOptions)[];

const INSTANT =
  "a valid Date, or ISO 8601 text with Z or an offset, such as '2027-03-14T02:30:00+05:30'";
const DEADLINE = `a duration such as '10m', ${INSTANT}`;

/** A statement is one string on its way, and Node's end at about 512 MiB. */
const MAX_LIST_BYTES = 128 * 1024 * 1024;

/** ISO 8601 that names its offset: without one the instant would depend on where the process runs. */
const ISO_WITH_OFFSET =
  /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)$/i;

/**
 * A job as the database takes it. A function of its inputs, before any SQL.
 * @throws InvalidJobError naming what is wrong and where; `where` leads its path, such as `jobs[2].`
 */
export function draftJob(
  kind: string,
  payload: unknown,
  options: JobOptions,
  defaults: KindDefaults | undefined,
  where = '',
): JobRow {
  for (const name of Object.keys(checkedObject(`${where}options`, options))) {
    if (OPTION_NAMES.includes(name)) continue;
    throw new InvalidJobError(
      `${where}${name}`,
      `is no option of a job. Known are: ${OPTION_NAMES.join(', ')}${where === '' ? ', tx' : ''}.`,
    );
  }
  const { queue, priority, runAt, delay, deadline, maxAttempts, dedupe, meta } = options;
  if (runAt !== undefined && delay !== undefined) {
    throw new InvalidJobError(`${where}delay`, 'is given together with `runAt`. Give one of them.');
  }
  const keyed = dedupe === undefined ? undefined : draftDedupe(dedupe, `${where}dedupe`);
  if (keyed?.delayMs !== undefined && (runAt !== undefined || delay !== undefined)) {
    throw new InvalidJobError(
      `${where}dedupe.debounce`,
      'is given together with `runAt` or `delay`, which it replaces. Give one of them.',
    );
  }
  const dueAt = runAt === undefined ? null : instant(runAt, `${where}runAt`);
  const delayMs =
    delay === undefined ? (keyed?.delayMs ?? null) : milliseconds(delay, `${where}delay`);
  return {
    kind: name(kind, `${where}kind`, MAX_BYTES.kind),
    queue: name(queue ?? defaults?.queue ?? DEFAULTS.queue, `${where}queue`, MAX_BYTES.queue),
    // No payload is an empty object, as in SQL.
    payload: jsonText(payload === undefined ? {} : payload, `${where}payload`),
    priority: whole(priority, `${where}priority`, -32_768, 32_767),
    runAt: dueAt,
    delayMs,
    maxAttempts:
      whole(maxAttempts, `${where}maxAttempts`, 1, 1_000_000) ?? defaults?.maxAttempts ?? null,
    dedupeKey: keyed?.key ?? null,
    ...(keyed?.rule && { dedupeRule: keyed.rule }),
    meta: meta === undefined ? null : metaText(meta, `${where}meta`),
    ...(deadline !== undefined && {
      deadline: deadlineOf(deadline, dueAt ?? delayMs, `${where}deadline`),
    }),
  };
}

/** @throws InvalidJobError if it is no object */
export function checkedObject<T>(path: string, value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new InvalidJobError(path, 'must be an object.');
}

/** @throws InvalidJobError if it is no list */
export function checkedList<T>(jobs: readonly T[]): readonly T[] {
  if (Array.isArray(jobs)) return jobs;
  throw new InvalidJobError('jobs', 'must be a list of { kind, payload, … }.');
}

/** @throws InvalidJobError if the jobs are more than one statement can carry */
export function checkTotal(jobs: readonly JobRow[]): void {
  const bytes = jobs.reduce(
    (sum, { payload, meta }) => sum + payload.length + (meta?.length ?? 0),
    0,
  );
  if (bytes <= MAX_LIST_BYTES) return;
  throw new InvalidJobError(
    'jobs',
    `have about ${bytes} bytes together, but at most ${MAX_LIST_BYTES} go into one statement. Give them in several lists.`,
  );
}

function name(value: unknown, path: string, maxBytes: number): string {
  if (isStorableName(value, maxBytes)) return value;
  throw new InvalidJobError(
    path,
    `must be text of 1 to ${maxBytes} bytes without NUL characters or halves of surrogate pairs.`,
  );
}

function whole(value: unknown, path: string, least: number, most: number): number | null {
  if (value === undefined) return null;
  if (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)
    return Number(value);
  throw new InvalidJobError(path, `must be a whole number from ${least} to ${most}.`);
}

function milliseconds(value: unknown, path: string): number {
  const ms = parseDuration(value);
  if (ms !== undefined) return ms;
  throw new InvalidJobError(
    path,
    `must be milliseconds from 0 to ${MAX_DURATION_MS}, or a string such as '30s' or '10m'.`,
  );
}

/** ISO 8601 in UTC. @throws InvalidJobError */
export function instant(value: unknown, path: string, expected = INSTANT): string {
  const date =
    types.isDate(value) || (typeof value === 'string' && ISO_WITH_OFFSET.test(value))
      ? new Date(value)
      : undefined;
  const year = date?.getUTCFullYear();
  if (typeof value === 'string' && !namesARealDay(value)) return refuse(path, expected);
  // Far outside anybody's plans, and inside what every ISO 8601 reader takes.
  if (date && year !== undefined && year >= 1 && year <= 9_999) return date.toISOString();
  return refuse(path, expected);
}

/** An instant as text, or a duration as milliseconds. `due` is the same for when the job may begin. */
function deadlineOf(value: unknown, due: string | number | null, path: string): string | number {
  const deadline = parseDuration(value) ?? instant(value, path, DEADLINE);
  if (due !== null && typeof due === typeof deadline && deadline <= due) {
    throw new InvalidJobError(path, 'is not after the time when the job is due. Give a later one.');
  }
  return deadline;
}

/** `Date` takes 30 February for 2 March. */
function namesARealDay(text: string): boolean {
  const day = text.slice(0, 10);
  return new Date(day).toJSON()?.startsWith(day) ?? false;
}

function refuse(path: string, expected: string): never {
  throw new InvalidJobError(path, `must be ${expected}.`);
}

function metaText(value: unknown, path: string): string {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return jsonText(value, path);
  throw new InvalidJobError(path, 'must be an object.');
}
