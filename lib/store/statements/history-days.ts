import { number, statement, text } from '../statement.js';

/** The table of one day of history: a partition of done_jobs, on its way out, on its own, or not there yet. */
export interface HistoryDay {
  /** `done_jobs_20261130`. */
  readonly table: string;
  /** The bounds, as `2026-11-30`: UTC, the second one excluded. */
  readonly from: string;
  readonly to: string;
  readonly state: 'missing' | 'detached' | 'attached' | 'detaching';
  /** Whole days since then, by the database's clock: 0 = today, negative = ahead. */
  readonly age: number;
}

/** On the tables that this package made: one that a person made or kept is never dropped. */
export const DAY_MARK = 'nestjs-pg-queue: a day of history';

/** All days that have a table, and those from today to `ahead` days from now that lack one. */
export const listDays = statement<number, HistoryDay>({
  text: /* sql */ `
    with parent as (
      select oid, relnamespace, (now() at time zone 'utc')::date as today
        from pg_catalog.pg_class where oid = 'pgqueue.done_jobs'::regclass
    ), present as (
      select to_date(right(c.relname, 8), 'YYYYMMDD') as day,
             case when i.inhrelid is null then 'detached'
                  when i.inhdetachpending then 'detaching' else 'attached' end as state
        from parent p
        join pg_catalog.pg_class c on c.relnamespace = p.relnamespace and c.relkind = 'r'
         and c.relname ~ '^done_jobs_[0-9]{8}$'
        left join pg_catalog.pg_inherits i on i.inhrelid = c.oid and i.inhparent = p.oid
       where i.inhrelid is not null or obj_description(c.oid, 'pg_class') = '${DAY_MARK}'
    ), wanted as (
      select today + offset_days as day from parent, generate_series(0, $1::int) as offset_days
    )
    select 'done_jobs_' || to_char(day, 'YYYYMMDD') as "table",
           to_char(day, 'YYYY-MM-DD') as "from", to_char(day + 1, 'YYYY-MM-DD') as "to",
           coalesce(state, 'missing') as state, today - day as age
      from present full join wanted using (day) cross join parent
     order by day`,
  values: (ahead) => [ahead],
  row: (row) => ({
    table: text(row, 'table'),
    from: text(row, 'from'),
    to: text(row, 'to'),
    state: text(row, 'state') as HistoryDay['state'],
    age: number(row, 'age'),
  }),
});
