import { list, statement } from '../statement.js';

/** A job as the statement takes it: checked, and with everything already text, number or null. */
export interface JobRow {
  readonly queue: string;
  readonly kind: string;
  /** JSON text. */
  readonly payload: string;
  readonly priority: number | null;
  /** ISO 8601 with an offset; at most one of `runAt` and `delayMs`. */
  readonly runAt: string | null;
  readonly delayMs: number | null;
  readonly maxAttempts: number | null;
  readonly dedupeKey: string | null;
  /** What the key does besides being unique among pending jobs; undefined = nothing. */
  readonly dedupeRule?: DedupeRule | undefined;
  /** JSON text. */
  readonly meta: string | null;
  /** No attempt begins after it: ISO 8601 with an offset, or milliseconds from now. */
  readonly deadline?: string | number;
}

/** See `DedupeOptions`. */
export interface DedupeRule {
  readonly until: 'settled' | 'started';
  readonly onDuplicate: 'skip' | 'replace' | 'throw';
  /** Milliseconds; null = the key is free when the job is settled, or started. */
  readonly ttlMs: number | null;
}

/** The answer for the job at `ordinal` (from 0). `id` is null if the holder of its key can't be seen. */
export interface EnqueuedRow {
  readonly ordinal: number;
  readonly id: string | null;
  readonly inserted: boolean;
  /** Of jobs with a {@link DedupeRule}: `replaced`, or `refused` and nothing was changed. Else undefined. */
  readonly outcome?: 'replaced' | 'refused';
}

export interface EnqueueRequest {
  readonly jobs: readonly JobRow[];
  /** Milliseconds to wait for whoever holds a key in an open transaction; undefined = as the session says. */
  readonly lockTimeout?: number | undefined;
  /** Whether `onDuplicate: 'throw'` of one job takes back all of them. */
  readonly allOrNothing?: boolean | undefined;
}

/** All or nothing. A fixed number of parameters, however many jobs, and one row for all answers. */
export const enqueueMany = statement<EnqueueRequest, EnqueuedRow[]>({
  isHot: true,
  // Everything as text, since this one may run on a client whose type parsers are not ours.
  text: /* sql */ `
    select ids::text, inserted::text
      from pgqueue.enqueue_many_v1(
        $1::text[], $2::text[], $3::jsonb, $4::smallint[], $5::timestamptz[], $6::float8[],
        $7::int[], $8::text[], $9::jsonb[], $10::int, $11::jsonb)`,
  values: ({ jobs, lockTimeout }) => [
    column(jobs, (job) => job.queue),
    column(jobs, (job) => job.kind),
    `[${jobs.map((job) => job.payload).join()}]`,
    column(jobs, (job) => job.priority),
    column(jobs, (job) => job.runAt),
    column(jobs, (job) => job.delayMs),
    column(jobs, (job) => job.maxAttempts),
    column(jobs, (job) => job.dedupeKey),
    column(jobs, (job) => job.meta),
    lockTimeout ?? null,
    deadlines(jobs),
  ],
  row: (row) => {
    const inserted = list(row, 'inserted');
    return list(row, 'ids').map((id, ordinal) => ({
      ordinal,
      id: id === 'NULL' ? null : id,
      inserted: (inserted[ordinal] ?? inserted[0]) === 't',
    }));
  },
});

/** The column of all jobs: null where none has a value, and one value where all have the same. */
function column<T>(jobs: readonly JobRow[], value: (job: JobRow) => T | null): (T | null)[] | null {
  const [first = null] = jobs.slice(0, 1).map(value);
  if (jobs.some((job) => value(job) !== first)) return jobs.map(value);
  return first === null ? null : [first];
}

/** The deadlines of the jobs that have one, n from 1 as SQL counts; null = none has. */
export function deadlines(jobs: readonly JobRow[]): string | null {
  if (jobs.every(({ deadline }) => deadline === undefined)) return null;
  const given = jobs.flatMap(({ deadline }, index) => {
    if (deadline === undefined) return [];
    const n = index + 1;
    return [typeof deadline === 'number' ? { n, ms: deadline } : { n, at: deadline }];
  });
  return JSON.stringify(given);
}
