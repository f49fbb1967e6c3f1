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

/** The statements of a worker's life, see migrations/0004-leases. */
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

export const declareDead = statement<string, boolean>({
  text: 'select pgqueue.declare_dead_v1($1::uuid) as declared',
  values: (worker) => [worker],
  row: (row) => row.declared === 't',
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
  readonly outcome: 'freed' | 'failed';
}

export const rescue = statement<{ strays: boolean; limit: number }, RescuedRow>({
  text: 'select id, kind, worker, outcome from pgqueue.rescue_v1($1::boolean, $2::int)',
  values: ({ strays, limit }) => [strays, limit],
  row: (row) => ({
    id: text(row, 'id'),
    kind: text(row, 'kind'),
    worker: text(row, 'worker'),
    outcome: text(row, 'outcome') as RescuedRow['outcome'],
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

export const retire = statement<string>({
  text: 'select pgqueue.retire_v1($1::uuid)',
  values: (worker) => [worker],
  row: () => undefined,
});

/** How many jobs were set aside or brought back. */
export const sortByHandler = statement<number, number>({
  text: 'select pgqueue.sort_by_handler_v1($1::int) as moved',
  values: (limit) => [limit],
  row: (row) => number(row, 'moved'),
});

/** The channel to LISTEN on. */
export const doorbell = statement<void, string>({
  text: 'select pgqueue.doorbell() as channel',
  values: () => [],
  row: (row) => text(row, 'channel'),
});
