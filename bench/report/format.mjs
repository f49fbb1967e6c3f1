// @ts-check

/** @typedef {import('../tests/test.js').Column['unit'] | 'percent'} Unit */

/**
 * @param {number | undefined} value
 * @param {Unit} unit
 */
export function show(value, unit) {
  if (value === undefined || Number.isNaN(value)) return '–';
  if (unit === 'yes') return value >= 1 ? 'yes' : 'no';
  if (!Number.isFinite(value)) return 'never';
  if (unit === 'ratio') return value.toFixed(2);
  if (unit === 'percent') return `${value.toFixed(0)} %`;
  if (unit === 'seconds') return value.toFixed(1);
  if (unit === 'ms') return value >= 100 ? value.toFixed(0) : value.toFixed(2);
  return Math.abs(value) < 10 && !Number.isInteger(value)
    ? value.toFixed(2)
    : Math.round(value).toLocaleString('en');
}

/**
 * @param {readonly string[]} head
 * @param {readonly (readonly string[])[]} rows
 * @param {'words' | 'numbers'} content of all columns but the first
 */
export function table(head, rows, content) {
  const line = (/** @type {readonly string[]} */ cells) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, column) => (column === 0 || content === 'words' ? '---' : '---:'));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}
