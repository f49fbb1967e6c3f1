import type { PausedKind, PauseTarget, QueueRecord } from '../../contracts/queue.js';
import { epochMs, instant, json, statement, text } from '../statement.js';

const pair = (target: PauseTarget) =>
  'queue' in target ? [target.queue, null] : [null, target.kind];

/** See migrations/0009-pause. */
export const pause = statement<PauseTarget>({
  text: 'select pgqueue.pause($1::text, $2::text)',
  values: pair,
  row: () => undefined,
});

export const resume = statement<PauseTarget>({
  text: 'select pgqueue.resume($1::text, $2::text)',
  values: pair,
  row: () => undefined,
});

export const resize = statement<{ queue: string; concurrency: number | null }>({
  text: 'select pgqueue.resize($1::text, $2::int)',
  values: ({ queue, concurrency }) => [queue, concurrency],
  row: () => undefined,
});

/** Every queue that has a row or a job, by name. Reads all pending and failed jobs. */
export const listQueues = statement<void, QueueRecord>({
  text: /* sql */ `
    with counts as (
      select queue, status, count(*) as count from pgqueue.jobs group by queue, status
      union all
      select queue, 'failed', count(*) from pgqueue.failed_jobs group by queue),
    by_queue as (
      select queue, json_object_agg(status, count) as counts from counts group by queue)
    select coalesce(q.name, c.queue) as name, ${epochMs('q.paused_at')} as paused_at, q.concurrency, c.counts
      from pgqueue.queues q full join by_queue c on c.queue = q.name
     order by coalesce(q.name, c.queue) collate "C"`,
  values: () => [],
  row: (row) => ({
    name: text(row, 'name'),
    pausedAt: instant(row, 'paused_at'),
    concurrency: json(row, 'concurrency') as number | null,
    queued: 0,
    scheduled: 0,
    waiting: 0,
    running: 0,
    failed: 0,
    ...(json(row, 'counts') as Partial<QueueRecord> | null),
  }),
});

export const listPausedKinds = statement<void, PausedKind>({
  text: /* sql */ `
    select name, ${epochMs('paused_at')} as paused_at from pgqueue.kinds
     where paused_at is not null order by name collate "C"`,
  values: () => [],
  row: (row) => ({ kind: text(row, 'name'), pausedAt: instant(row, 'paused_at') as Date }),
});

/** What a worker should know of the queues that it serves. */
export interface QueueSettings {
  readonly pausedQueues: readonly string[];
  readonly pausedKinds: readonly string[];
  /** Slots of queues in a process, where somebody has said so. */
  readonly concurrency: readonly (readonly [queue: string, slots: number])[];
}

export const queueSettings = statement<readonly string[], QueueSettings>({
  text: /* sql */ `
    select (select json_agg(name order by name) from pgqueue.queues
             where name = any ($1::text[]) and paused_at is not null) as paused_queues,
           array_to_json(pgqueue.paused_kinds()) as paused_kinds,
           (select json_agg(json_build_array(name, concurrency) order by name) from pgqueue.queues
             where name = any ($1::text[]) and concurrency is not null) as concurrency`,
  values: (queues) => [queues],
  row: (row) => ({
    pausedQueues: (json(row, 'paused_queues') as string[] | null) ?? [],
    pausedKinds: (json(row, 'paused_kinds') as string[] | null) ?? [],
    concurrency: (json(row, 'concurrency') as [string, number][] | null) ?? [],
  }),
});
