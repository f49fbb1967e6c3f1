import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { forSchema } from '../../lib/store/sql.js';
import type { Ledger } from './ledger.support.js';

/** What must be true of the tables at every moment; each row is something that is not. One snapshot. */
const VIOLATIONS = /* sql */ `
  select 'an accepted job is in ' || count(j.id) || ' places' as violation, a.id::text as what
    from unnest($1::bigint[]) as a(id) left join pgqueue.all_jobs j on j.id = a.id
   group by a.id having count(j.id) <> 1
  union all
  select 'a job that was rolled back is there', id::text
    from pgqueue.all_jobs where id = any ($2::bigint[])
  union all
  select 'attempts are beyond the budget', id::text
    from pgqueue.all_jobs where attempts > max_attempts or attempts < 0
  union all
  select 'two pending jobs have one key', kind || ' ' || dedupe_key
    from pgqueue.jobs where dedupe_key is not null
   group by kind, dedupe_key having count(*) > 1
  union all
  select 'a job is held by a worker that has no row', id::text
    from pgqueue.jobs j
   where locked_by is not null and not exists (select from pgqueue.workers w where w.id = j.locked_by)`;

/** Looks at the tables all the time, through outages too, and keeps every violation that it saw. */
export class Watcher {
  readonly violations = new Set<string>();
  looks = 0;
  private readonly stopping = new AbortController();
  private readonly watching: Promise<void>;

  constructor(
    private readonly url: string,
    private readonly schema: string,
    private readonly ledger: Ledger,
  ) {
    this.watching = this.watch();
  }

  /** After one more look. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.watching;
  }

  private async watch(): Promise<void> {
    const { signal } = this.stopping;
    for (let last = false; !last;) {
      last = signal.aborted;
      await this.look().catch(() => {});
      await pause(100, undefined, { signal }).catch(() => {});
    }
  }

  private async look(): Promise<void> {
    const client = new Client(this.url);
    client.on('error', () => {});
    try {
      await client.connect();
      // Both lists before the snapshot: what is added later may not be in it yet.
      const lists = [[...this.ledger.accepted], [...this.ledger.rolledBack]];
      const { rows } = await client.query<{ violation: string; what: string }>(
        forSchema(VIOLATIONS, this.schema),
        lists,
      );
      for (const { violation, what } of rows) this.violations.add(`${violation}: ${what}`);
      this.looks += 1;
    } finally {
      await client.end().catch(() => {});
    }
  }
}
