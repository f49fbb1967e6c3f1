import { MAX_DURATION_MS, parseDuration } from '../contracts/duration.js';
import type { DedupeOptions } from '../contracts/enqueue.js';
import { InvalidJobError } from '../contracts/errors.js';
import { isStorableName, MAX_BYTES } from '../contracts/option-checks.js';
import type { DedupeRule } from '../store/statements/enqueue-many.js';

const OPTION_NAMES = [
  'key',
  'until',
  'onDuplicate',
  'ttl',
  'debounce',
] satisfies (keyof DedupeOptions)[];

/** What the `dedupe` of a call comes to. */
export interface DraftedDedupe {
  readonly key: string;
  /** Undefined: the key is unique among pending jobs, and that is all. */
  readonly rule: DedupeRule | undefined;
  /** Milliseconds until the job is due; undefined = as the call says. */
  readonly delayMs: number | undefined;
}

/** @throws InvalidJobError naming what is wrong; `path` leads to the option */
export function draftDedupe(dedupe: unknown, path: string): DraftedDedupe {
  if (typeof dedupe !== 'object' || dedupe === null) {
    return { key: checkedKey(dedupe, path), rule: undefined, delayMs: undefined };
  }
  const unknown = Object.keys(dedupe).find((name) => !OPTION_NAMES.some((known) => known === name));
  if (unknown !== undefined) {
    const known = OPTION_NAMES.join(', ');
    throw new InvalidJobError(
      `${path}.${unknown}`,
      `is no option of \`dedupe\`. Known are: ${known}.`,
    );
  }
  const options = dedupe as { readonly [Name in keyof DedupeOptions]?: unknown };
  const key = checkedKey(options.key, `${path}.key`);
  const ttlMs = span(options.ttl, `${path}.ttl`);
  const delayMs = span(options.debounce, `${path}.debounce`);
  if (delayMs !== undefined && ttlMs !== undefined) {
    throw new InvalidJobError(
      `${path}.ttl`,
      'is given together with `debounce`. Give one of them.',
    );
  }
  const until = oneOf(options.until, ['settled', 'started'], `${path}.until`);
  const onDuplicate = oneOf(
    options.onDuplicate,
    ['skip', 'replace', 'throw'],
    `${path}.onDuplicate`,
  );
  if (delayMs !== undefined && onDuplicate !== undefined && onDuplicate !== 'replace') {
    throw new InvalidJobError(
      `${path}.onDuplicate`,
      'must be left out or `replace` beside `debounce`, which replaces.',
    );
  }
  const isDebounced = delayMs !== undefined;
  const rule: DedupeRule = {
    until: until ?? (isDebounced ? 'started' : 'settled'),
    onDuplicate: onDuplicate ?? (isDebounced ? 'replace' : 'skip'),
    ttlMs: ttlMs ?? null,
  };
  const isPlain = rule.until === 'settled' && rule.onDuplicate === 'skip' && rule.ttlMs === null;
  return { key, rule: isPlain ? undefined : rule, delayMs };
}

function checkedKey(value: unknown, path: string): string {
  if (isStorableName(value, MAX_BYTES.dedupeKey)) return value;
  throw new InvalidJobError(
    path,
    `must be text of 1 to ${MAX_BYTES.dedupeKey} bytes without NUL characters or halves of surrogate pairs.`,
  );
}

function span(value: unknown, path: string): number | undefined {
  if (value === undefined) return undefined;
  const ms = parseDuration(value);
  if (ms !== undefined && ms >= 1) return ms;
  throw new InvalidJobError(
    path,
    `must be milliseconds from 1 to ${MAX_DURATION_MS}, or a string such as '30s' or '10m'.`,
  );
}

function oneOf<T extends string>(value: unknown, names: readonly T[], path: string): T | undefined {
  if (value === undefined) return undefined;
  const found = names.find((name) => name === value);
  if (found !== undefined) return found;
  throw new InvalidJobError(
    path,
    `must be one of: ${names.map((name) => `'${name}'`).join(', ')}.`,
  );
}
