const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
/** The longest duration that is accepted anywhere: ten years, far inside what PostgreSQL's instants hold. */
export const MAX_DURATION_MS = 3_653 * UNITS.d;
/** Milliseconds of a duration; undefined if it is not one: wrong form, negative, not finite, over ten years. */
export function parseDuration(value) {
    const ms = typeof value === 'number' ? value : parseText(value);
    return ms !== undefined && ms >= 0 && ms <= MAX_DURATION_MS ? ms : undefined;
}
/** Whether {@link parseDuration} understands the value. */
export function isDuration(value) {
    return parseDuration(value) !== undefined;
}
function parseText(value) {
    if (typeof value !== 'string')
        return undefined;
    const [, amount, unit] = PATTERN.exec(value) ?? [];
    return amount && unit ? Number(amount) * UNITS[unit] : undefined;
}
