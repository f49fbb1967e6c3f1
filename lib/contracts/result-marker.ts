import { storableText } from './storable.js';

/** What is stored in the place of a result that can't be: JSON text that says why. */
export function resultMarker(reason: string): string {
  return JSON.stringify({ notStored: storableText(reason, 500) });
}

/** Why there is no result, if the stored value is such a marker. */
export function reasonNotStored(result: unknown): string | undefined {
  if (typeof result !== 'object' || result === null) return undefined;
  const { notStored, ...others } = result as { notStored?: unknown };
  const isMarker = typeof notStored === 'string' && Object.keys(others).length === 0;
  return isMarker ? notStored : undefined;
}
