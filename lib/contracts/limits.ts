import {
  duration,
  invalid,
  isPlainObject,
  isStorableName,
  queueName,
  refuseUnknown,
} from './option-checks.js';
import type { Duration } from './duration.js';

/** How many jobs may run, and how often they may begin, over all workers together. */
export interface LimitOptions {
  /**
   * Counts apart for each value that the payloads have there: a path such as `'tenantId'` or `'customer.id'`.
   * Payloads without one are counted together. Default: all jobs are counted together.
   */
  readonly by?: string | undefined;
  /** Jobs that run at once. 0 = none. */
  readonly maxRunning?: number | undefined;
  /**
   * Never more than `max` jobs begin within any `per`, evenly spread. With `burst`, that many may begin at once,
   * and `max` within `per` on average.
   */
  readonly rate?:
    | { readonly max: number; readonly per: Duration; readonly burst?: number | undefined }
    | undefined;
}

/** A limit with what it holds for. */
export interface Limit extends LimitOptions {
  /** 1 to 200 bytes without a slash; `limits.name` in the database. */
  readonly name: string;
  /** Only jobs in this queue. Default: in all. */
  readonly queue?: string | undefined;
  /** Only jobs of these kinds. Default: of all. */
  readonly kinds?: readonly string[] | undefined;
}

/** A limit as it is stored, checked. */
export interface LimitRecord {
  readonly name: string;
  readonly queue: string | null;
  readonly kinds: readonly string[] | null;
  readonly by: readonly string[] | null;
  readonly maxRunning: number | null;
  /** `per` in milliseconds. */
  readonly rate: {
    readonly max: number;
    readonly per: number;
    readonly burst: number | null;
  } | null;
}

const NAMES = [
  'name',
  'queue',
  'kinds',
  'by',
  'maxRunning',
  'rate',
] as const satisfies readonly (keyof Limit)[];
const MAX_NAME_BYTES = 200;

/**
 * Checks a limit.
 * @param option where it stands, for messages: `limits[0]`
 * @throws PgQueueError `INVALID_OPTION`, naming the option and what it may be
 */
export function checkedLimit(option: string, limit: Limit): LimitRecord {
  if (!isPlainObject(limit)) throw invalid(option, limit, 'an object: { maxRunning, rate, by }');
  refuseUnknown(`options of \`${option}\``, limit, NAMES);
  const { name, queue, kinds, by, maxRunning, rate } = limit;
  if (!isStorableName(name, MAX_NAME_BYTES) || name.includes('/')) {
    throw invalid(`${option}.name`, name, `a name of 1 to ${MAX_NAME_BYTES} bytes without a slash`);
  }
  if (maxRunning === undefined && rate === undefined) {
    throw invalid(option, '{}', 'given `maxRunning`, `rate` or both');
  }
  return {
    name,
    queue: queue === undefined ? null : queueName(`${option}.queue`, queue),
    kinds: kinds === undefined ? null : checkedKinds(`${option}.kinds`, kinds),
    by: by === undefined ? null : checkedPath(`${option}.by`, by),
    maxRunning: maxRunning === undefined ? null : count(`${option}.maxRunning`, maxRunning, 0),
    rate: rate === undefined ? null : checkedRate(`${option}.rate`, rate),
  };
}

function checkedRate(
  option: string,
  rate: NonNullable<LimitOptions['rate']>,
): NonNullable<LimitRecord['rate']> {
  if (!isPlainObject(rate)) throw invalid(option, rate, 'an object: { max, per, burst }');
  refuseUnknown(`options of \`${option}\``, rate, ['max', 'per', 'burst']);
  if (rate.per === undefined)
    throw invalid(`${option}.per`, rate.per, 'a duration of at least 1 ms');
  return {
    max: count(`${option}.max`, rate.max, 1),
    per: duration(`${option}.per`, rate.per, 0, 1),
    burst: rate.burst === undefined ? null : count(`${option}.burst`, rate.burst, 1),
  };
}

function count(option: string, value: unknown, least: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= 1_000_000)
    return value;
  throw invalid(option, value, `a whole number from ${least} to 1000000`);
}

function checkedKinds(option: string, kinds: readonly string[]): readonly string[] {
  const fits =
    Array.isArray(kinds) && kinds.length > 0 && kinds.every((kind) => isStorableName(kind, 255));
  if (fits) return kinds;
  throw invalid(option, kinds, 'a list of at least one kind');
}

function checkedPath(option: string, path: string): readonly string[] {
  const steps = isStorableName(path, 1_000) ? path.split('.') : [];
  if (steps.length > 0 && !steps.includes('')) return steps;
  throw invalid(option, path, "a path into the payload, such as 'tenantId' or 'customer.id'");
}
