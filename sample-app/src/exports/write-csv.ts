import { stringify } from 'csv-stringify';
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';

/**
 * Writes the rows to a temporary file and renames it, so that nobody ever sees half a file.
 * @returns the number of rows.
 */
export async function writeCsv<Row extends object>(
  file: string,
  columns: (keyof Row & string)[],
  rows: AsyncIterable<Row>,
  signal: AbortSignal,
): Promise<number> {
  await mkdir(dirname(file), { recursive: true });
  // A name of its own: a run that lost its lease may still be writing beside this one.
  const partial = `${file}.${randomUUID()}.part`;
  // Text that a spreadsheet would take for a formula is quoted: users choose their names.
  const csv = stringify({ header: true, columns, escape_formulas: true });
  let count = 0;
  async function* counted(): AsyncGenerator<Row> {
    for await (const row of rows) {
      count += 1;
      yield row;
    }
  }
  try {
    await pipeline(counted, csv, createWriteStream(partial), { signal });
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  return count;
}
