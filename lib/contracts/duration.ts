/** Milliseconds, or a string of a number and a unit: `'250ms'`, `'30s'`, `'10m'`, `'2h'`, `'7d'`. */
export type Duration = number | DurationString;

/** A duration as text. Whole or decimal numbers; no spaces; one unit. */
export type DurationString = `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** The longest duration that is accepted anywhere: ten years, far inside what PostgreSQL's instants hold. */
export const MAX_DURATION_MS = 3_653 * UNITS.d;

/** Milliseconds of a duration; undefined if it is not one: wrong form, negative, not finite, over ten years. */
export function parseDuration(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value : parseText(value);
  return ms !== undefined && ms >= 0 && ms <= MAX_DURATION_MS ? ms : undefined;
}

/** Whether {@link parseDuration} understands the value. */
export function isDuration(value: unknown): value is Duration {
  return parseDuration(value) !== undefined;
}

function parseText(value: unknown): number | undefined {
  if (typeof value !== 'string') return undefined;
  const [, amount, unit] = PATTERN.exec(value) ?? [];
  return amount && unit ? Number(amount) * UNITS[unit as keyof typeof UNITS] : undefined;
}
