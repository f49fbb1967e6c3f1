import { storableText } from '../contracts/storable.js';
import type { StoredError } from '../store/statements/exchange.js';

const MAX_MESSAGE = 4_000;
const MAX_STACK = 8_000;
const MAX_CAUSES = 5;
const MAX_REASONS = 20;

/**
 * Anything that can be thrown, as it is stored: never empty, always storable, bounded. Never throws itself:
 * a getter, a proxy or a `toString` that throws is described instead.
 */
export function describeError(thrown: unknown): StoredError {
  const name = read(thrown, 'name') || typeName(thrown);
  const messages = [messageOf(thrown)];
  const seen = new Set([thrown]);
  for (let cause = property(thrown, 'cause'); isTelling(cause); cause = property(cause, 'cause')) {
    if (seen.has(cause) || messages.length > MAX_CAUSES) break;
    seen.add(cause);
    messages.push(messageOf(cause));
  }
  const stack = read(thrown, 'stack');
  return {
    name: storableText(name, 200),
    message: storableText(messages.join('; caused by: '), MAX_MESSAGE),
    ...(stack && { stack: storableText(stack, MAX_STACK) }),
  };
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === 'string' && thrown !== '') return thrown;
  const message = read(thrown, 'message');
  if (message) return [message, ...reasonsOf(thrown)].join(': ');
  if (isObject(thrown)) {
    // Node's errors of a failed connection have a code and, where several addresses were tried, no message.
    const parts = [read(thrown, 'name'), read(thrown, 'code')].filter((part) => part !== '');
    return parts.join(' ') || `An object was thrown (${typeName(thrown)})`;
  }
  return `${thrown === '' ? "''" : String(thrown)} was thrown`;
}

/** What Nest's HttpException says besides its message: a ValidationPipe lists there what is wrong. */
function reasonsOf(thrown: unknown): string[] {
  const reasons = property(property(thrown, 'response'), 'message');
  if (!Array.isArray(reasons)) return [];
  const texts = reasons.filter((reason) => typeof reason === 'string').slice(0, MAX_REASONS);
  return texts.length > 0 ? [texts.join('; ')] : [];
}

function typeName(thrown: unknown): string {
  if (!isObject(thrown)) return typeof thrown;
  return read(property(thrown, 'constructor'), 'name') || 'object';
}

/** A property if it is text, else ''. */
function read(value: unknown, key: string): string {
  const found = property(value, key);
  return typeof found === 'string' ? found : '';
}

function property(value: unknown, key: string): unknown {
  if (!isObject(value)) return undefined;
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

/** Whether a cause says anything. */
function isTelling(cause: unknown): boolean {
  return isObject(cause) || (typeof cause === 'string' && cause !== '');
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
