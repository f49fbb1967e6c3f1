import { PgQueueError } from '../contracts/errors.js';
import { isStorableJson } from '../contracts/storable.js';

const MAX_BYTES = 4 * 1024;

/**
 * What a handler said of its progress, as JSON text.
 * @throws PgQueueError `INVALID_ARGUMENT` naming what is wrong with it
 */
export function progressText(value: unknown): string {
  if (typeof value === 'number' && !(value >= 0 && value <= 100)) {
    throw invalid(`is ${value}, but a number must be from 0 to 100`);
  }
  let text: string | undefined;
  try {
    text = JSON.stringify(value) as string | undefined;
  } catch (cause) {
    throw invalid('is no JSON value: see the `cause` of this error', cause);
  }
  if (text === undefined) throw invalid(`is ${typeof value}, but it must be a JSON value`);
  if (!isStorableJson(text)) throw invalid("holds characters that PostgreSQL can't store");
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) {
    throw invalid(`has ${bytes} bytes as JSON, but at most ${MAX_BYTES} are allowed`);
  }
  return text;
}

function invalid(problem: string, cause?: unknown): PgQueueError {
  return new PgQueueError(
    'INVALID_ARGUMENT',
    `The value given to job.progress ${problem}. Give a number from 0 to 100, or a small object.`,
    cause === undefined ? {} : { cause },
  );
}
