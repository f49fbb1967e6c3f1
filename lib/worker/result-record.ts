import { resultMarker } from '../contracts/result-marker.js';
import { isStorableJson } from '../contracts/storable.js';
import { describeError } from './error-record.js';

/** A result is for looking at, not for storing files: larger ones are replaced by a marker. */
export const MAX_RESULT_BYTES = 64 * 1024;

/**
 * What a handler returned, as JSON text for the history; undefined = nothing to keep. What can't be stored
 * is replaced by a marker that says why: a job that succeeded must never run again because of its result.
 */
export function resultRecord(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    return resultMarker(describeError(error).message);
  }
  if (text === undefined) return undefined;
  if (!isStorableJson(text)) return resultMarker('it holds characters that jsonb refuses');
  if (Buffer.byteLength(text) > MAX_RESULT_BYTES)
    return resultMarker(`it is larger than ${MAX_RESULT_BYTES} bytes`);
  return text;
}
