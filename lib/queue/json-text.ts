import { types } from 'node:util';
import { InvalidJobError } from '../contracts/errors.js';
import { isStorableJson, isStorableText } from '../contracts/storable.js';

/** A job carries arguments, not files: what is larger belongs in a table or a bucket, with its key in the job. */
export const MAX_JSON_BYTES = 1024 * 1024;
/** PostgreSQL's parser and JSON.stringify both recurse. */
const MAX_DEPTH = 500;

/**
 * A value as JSON text that `jsonb` takes.
 * @throws InvalidJobError naming the path of what JSON or PostgreSQL can't hold
 */
export function jsonText(value: unknown, path: string): string {
  const text = stringify(value, path);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_JSON_BYTES) {
    throw new InvalidJobError(
      path,
      `has ${bytes} bytes as JSON, but at most ${MAX_JSON_BYTES} are allowed. Store the data elsewhere and put its key into the job.`,
    );
  }
  return text;
}

function stringify(value: unknown, path: string): string {
  let text: string | undefined;
  try {
    check(value, path, []);
    text = JSON.stringify(value) as string | undefined;
  } catch (error) {
    if (error instanceof InvalidJobError) throw error;
    const problem = "can't be read: a getter or toJSON in it threw. See the `cause` of this error.";
    throw Object.assign(new InvalidJobError(path, problem), { cause: error });
  }
  if (text === undefined) {
    throw new InvalidJobError(
      path,
      'is undefined by its toJSON, which is no JSON value. Use null.',
    );
  }
  // What a getter or toJSON answered the second time has not been checked.
  if (!isStorableJson(text)) {
    throw new InvalidJobError(path, "holds text that PostgreSQL can't store. Remove it first.");
  }
  return text;
}

/** `ancestors` are the objects around the value: one that is met again contains itself. */
function check(value: unknown, path: string, ancestors: readonly object[]): void {
  switch (typeof value) {
    case 'string':
      return checkText(value, path);
    case 'number':
      if (Number.isFinite(value)) return;
      throw new InvalidJobError(path, `is ${value}, which JSON can't hold. Use null or a string.`);
    case 'boolean':
      return;
    case 'undefined':
      if (ancestors.length > 0) return; // as JSON.stringify: left out of objects, null in arrays
      throw new InvalidJobError(path, 'is undefined, which is no JSON value. Use null.');
    case 'object':
      return value === null ? undefined : checkObject(value, path, ancestors);
    default:
      throw new InvalidJobError(
        path,
        `is a ${typeof value}, which JSON can't hold. ${typeof value === 'bigint' ? 'Use a string.' : 'Leave it out.'}`,
      );
  }
}

function checkObject(value: object, path: string, ancestors: readonly object[]): void {
  if (ancestors.includes(value)) {
    throw new InvalidJobError(path, 'contains itself. Give a tree without cycles.');
  }
  if (ancestors.length >= MAX_DEPTH) {
    throw new InvalidJobError(path, `lies deeper than ${MAX_DEPTH} levels. Give a flatter value.`);
  }
  if (types.isMap(value) || types.isSet(value)) {
    throw new InvalidJobError(
      path,
      'is a Map or a Set, of which JSON keeps nothing. Use an object or an array.',
    );
  }
  const inside = [...ancestors, value];
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === 'function') {
    const replacement: unknown = toJSON.call(value, '');
    if (replacement !== value) return check(replacement, path, inside);
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) check(item, `${path}[${index}]`, inside);
    return;
  }
  for (const [key, item] of Object.entries(value)) {
    checkText(key, `the key ${JSON.stringify(key)} in ${path}`);
    check(item, /^\w+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`, inside);
  }
}

function checkText(text: string, path: string): void {
  if (isStorableText(text)) return;
  const what = text.includes('\0') ? 'a NUL character' : 'half of a surrogate pair';
  throw new InvalidJobError(path, `holds ${what}, which PostgreSQL can't store. Remove it first.`);
}
