import type { LimitRecord } from '../../contracts/limits.js';
import { json, number, statement, text } from '../statement.js';

/** See migrations/0011-limits. */
export const sweepSlots = statement<void, number>({
  text: 'select pgqueue.sweep_slots_v1() as count',
  values: () => [],
  row: (row) => number(row, 'count'),
});

/** `declared`: by the code of the application, which gives way to what people changed since it last said so. */
export const setLimit = statement<{ limit: LimitRecord; declared: boolean }>({
  text: /* sql */ `
    select pgqueue.set_limit_v1($1, $2, $3::text[], $4::text[], $5::int, $6::int, $7::float8, $8::int, $9::boolean)`,
  values: ({ limit, declared }) => {
    const { name, queue, kinds, by, maxRunning, rate } = limit;
    return [
      name,
      queue,
      kinds,
      by,
      maxRunning,
      rate?.max ?? null,
      rate?.per ?? null,
      rate?.burst ?? null,
      declared,
    ];
  },
  row: () => undefined,
});

/** Answers a row if there was one. */
export const removeLimit = statement<string, string>({
  text: 'delete from pgqueue.limits where name = $1 returning name',
  values: (name) => [name],
  row: (row) => text(row, 'name'),
});

export const listLimits = statement<void, LimitRecord>({
  text: /* sql */ `
    select name, queue, to_jsonb(kinds) as kinds, to_jsonb(by) as by, max_running,
           case when rate_max is not null then jsonb_build_object('max', rate_max,
             'per', 1000 * extract(epoch from rate_per), 'burst', rate_burst) end as rate
      from pgqueue.limits order by name`,
  values: () => [],
  row: (row) => ({
    name: text(row, 'name'),
    queue: row.queue ?? null,
    kinds: json(row, 'kinds') as string[] | null,
    by: json(row, 'by') as string[] | null,
    maxRunning: row.max_running === null ? null : number(row, 'max_running'),
    rate: json(row, 'rate') as LimitRecord['rate'],
  }),
});
