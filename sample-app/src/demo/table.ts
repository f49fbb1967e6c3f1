/** The rows as aligned columns under their names. */
export function formatTable<Row extends object>(
  columns: readonly (keyof Row & string)[],
  rows: readonly Row[],
): string[] {
  const cells = [[...columns], ...rows.map((row) => columns.map((name) => String(row[name])))];
  const widths = columns.map((_, i) => Math.max(...cells.map((line) => (line[i] ?? '').length)));
  const lines = cells.map((line) =>
    line
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('   ')
      .trimEnd(),
  );
  return lines.toSpliced(1, 0, widths.map((width) => '-'.repeat(width)).join('   '));
}
