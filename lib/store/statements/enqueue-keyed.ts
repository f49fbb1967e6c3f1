import { list, statement } from '../statement.js';
import { deadlines, type EnqueuedRow, type EnqueueRequest, type JobRow } from './enqueue-many.js';

/** Jobs of which at least one has a `DedupeRule`, see migrations/0010-dedupe. */
export const enqueueKeyed = statement<EnqueueRequest, EnqueuedRow[]>({
  // Everything as text, since this one may run on a client whose type parsers are not ours.
  text: /* sql */ `
    select ids::text, outcomes::text
      from pgqueue.enqueue_keyed_v1(
        $1::text[], $2::text[], $3::jsonb, $4::smallint[], $5::timestamptz[], $6::float8[],
        $7::int[], $8::text[], $9::jsonb[], $10::text[], $11::text[], $12::float8[], $13::boolean, $14::int,
        $15::jsonb)`,
  values: ({ jobs, lockTimeout, allOrNothing = false }) => {
    const column = <T>(value: (job: JobRow) => T): T[] => jobs.map(value);
    return [
      column((job) => job.queue),
      column((job) => job.kind),
      `[${column((job) => job.payload).join()}]`,
      column((job) => job.priority),
      column((job) => job.runAt),
      column((job) => job.delayMs),
      column((job) => job.maxAttempts),
      column((job) => job.dedupeKey),
      column((job) => job.meta),
      column((job) => job.dedupeRule?.until ?? 'settled'),
      column((job) => job.dedupeRule?.onDuplicate ?? 'skip'),
      column((job) => job.dedupeRule?.ttlMs ?? null),
      allOrNothing,
      lockTimeout ?? null,
      deadlines(jobs),
    ];
  },
  row: (row) => {
    const outcomes = list(row, 'outcomes');
    return list(row, 'ids').map((id, ordinal) => enqueued(ordinal, id, outcomes[ordinal]));
  },
});

function enqueued(ordinal: number, id: string, outcome: string | undefined): EnqueuedRow {
  const row = { ordinal, id: id === 'NULL' ? null : id, inserted: outcome === 'inserted' };
  return outcome === 'replaced' || outcome === 'refused' ? { ...row, outcome } : row;
}
