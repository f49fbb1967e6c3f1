// @ts-check

/** @param {readonly number[]} values */
export function median(values) {
  return percentile(values, 0.5);
}

/**
 * The value below which a share of the values lies, interpolated.
 * @param {readonly number[]} values
 * @param {number} share 0.99 = p99
 */
export function percentile(values, share) {
  if (values.length === 0) return NaN;
  const sorted = Float64Array.from(values).toSorted();
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? NaN;
  const above = sorted[Math.ceil(place)] ?? NaN;
  // Of what never came, there is nothing in between.
  if (below === above) return below;
  return below + (above - below) * (place - Math.floor(place));
}

/**
 * @param {readonly number[]} values milliseconds
 * @param {string} [suffix] for the names
 */
export function percentiles(values, suffix = '') {
  return {
    [`p50${suffix}`]: percentile(values, 0.5),
    [`p95${suffix}`]: percentile(values, 0.95),
    [`p99${suffix}`]: percentile(values, 0.99),
  };
}
