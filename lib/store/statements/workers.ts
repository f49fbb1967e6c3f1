import { list, number, statement, text } from '../statement.js';

/** What a worker says of itself when it starts. */
export interface WorkerRow {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly queues: readonly string[];
  readonly kinds: readonly string[];
  /** Milliseconds. */
  readonly lease: number;
}

/** The statements of a worker's life, see migrations/0005-leases. */
export const register = statement<WorkerRow>({
  text: 'select pgqueue.register_v1($1::uuid, $2, $3, $4::int, $5, $6::text[], $7::text[], $8::float8)',
  values: (w) => [w.id, w.name, w.host, w.pid, w.version, w.queues, w.kinds, w.lease],
  row: () => undefined,
});

export const heartbeat = statement<
  { worker: string; lease: number },
  { alive: boolean; overdue: string[] }
>({
  text: 'select alive, overdue from pgqueue.heartbeat_v1($1::uuid, $2::float8)',
  values: ({ worker, lease }) => [worker, lease],
  row: (row) => ({ alive: row.alive === 't', overdue: list(row, 'overdue') }),
});

/** Answers the worker's name if it is dead now by this call. */
export const declareDead = statement<string, string | null>({
  text: /* sql */ `
    select case when pgqueue.declare_dead_v1(id) then name end as name
      from pgqueue.workers where id = $1::uuid`,
  values: (worker) => [worker],
  row: (row) => row.name ?? null,
});

/** Workers that are dead or whose lease has ended. */
export const listOverdue = statement<void, string>({
  text: 'select id from pgqueue.workers where dead_at is not null or lease_until < clock_timestamp()',
  values: () => [],
  row: (row) => text(row, 'id'),
});

/** A job that came back from a worker that is gone. */
export interface RescuedRow {
  readonly id: string;
  readonly kind: string;
  readonly worker: string;
  /** `freed`, `failed`, or `refused: …` with what the database said. */
  readonly outcome: string;
}

export const rescue = statement<{ strays: boolean; limit: number }, RescuedRow>({
  text: 'select id, kind, worker, outcome from pgqueue.rescue_v1($1::boolean, $2::int)',
  values: ({ strays, limit }) => [strays, limit],
  row: (row) => ({
    id: text(row, 'id'),
    kind: text(row, 'kind'),
    worker: text(row, 'worker'),
    outcome: text(row, 'outcome'),
  }),
});

/** `epoch` is undefined if the worker is dead. */
export const reconcile = statement<
  { worker: string; known: readonly string[] },
  { epoch: number | undefined; released: number; remaining: number }
>({
  text: 'select epoch, released, remaining from pgqueue.reconcile_v1($1::uuid, $2::bigint[])',
  values: ({ worker, known }) => [worker, known],
  row: (row) => ({
    epoch: row.epoch === null ? undefined : number(row, 'epoch'),
    released: number(row, 'released'),
    remaining: number(row, 'remaining'),
  }),
});

export const retire = statement<{ worker: string; unsettled: readonly string[] }>({
  text: 'select pgqueue.retire_v1($1::uuid, $2::bigint[])',
  values: ({ worker, unsettled }) => [worker, unsettled],
  row: () => undefined,
});

/** Jobs that were set aside, since no live worker handles them or their kind is paused, or brought back. */
export interface SortedRow {
  readonly queue: string;
  readonly kind: string;
  readonly jobs: number;
  readonly outcome: 'set_aside' | 'paused' | 'brought_back';
}

export const sortByHandler = statement<number, SortedRow>({
  text: 'select queue, kind, jobs, outcome from pgqueue.sort_by_handler_v1($1::int)',
  values: (limit) => [limit],
  row: (row) => ({
    queue: text(row, 'queue'),
    kind: text(row, 'kind'),
    jobs: number(row, 'jobs'),
    outcome: text(row, 'outcome') as SortedRow['outcome'],
  }),
});

/** The channels to LISTEN on: for jobs that become due, and for jobs that are to be cancelled. */
export const channels = statement<void, { doorbell: string; cancels: string }>({
  text: 'select pgqueue.doorbell() as doorbell, pgqueue.cancel_channel() as cancels',
  values: () => [],
  row: (row) => ({ doorbell: text(row, 'doorbell'), cancels: text(row, 'cancels') }),
});

/** For the session that listens, see "The doorbell" in docs/architecture.md. */
export const wait = statement<readonly string[], { refused: number; enqueuing: string[] }>({
  text: 'select refused, enqueuing from pgqueue.wait_v1($1::text[])',
  values: (queues) => [queues],
  row: (row) => ({ refused: number(row, 'refused'), enqueuing: list(row, 'enqueuing') }),
});

/** The transactions that have enqueued and not ended. */
export const enqueuing = statement<readonly string[], string[]>({
  text: 'select pgqueue.enqueuing_v1($1::text[]) as enqueuing',
  values: (queues) => [queues],
  row: (row) => list(row, 'enqueuing'),
});

/** Lets go of all that {@link wait} took. */
export const letGo = statement({
  text: 'select pg_catalog.pg_advisory_unlock_all()',
  values: () => [],
  row: () => undefined,
});
