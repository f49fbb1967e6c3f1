import { QueueService } from 'nestjs-pg-queue';
import { Pool } from 'pg';
import type { User, Users } from '../users/users.repository.js';
import { poll } from './until.js';

export interface JobRow {
  readonly id: string;
  readonly kind: string;
  readonly status: string;
  readonly attempts: number;
}

export const WEBHOOK = { event: 'user.created', data: { plan: 'free', seats: 1 } };

const PEOPLE = [
  ['ada@example.com', 'Ada'],
  ['grace@example.com', 'Grace'],
  ['edsger@example.com', 'Edsger, W.'],
] as const;

/** The users and the four jobs commit together: until then no worker sees anything. */
export function enqueueFourJobs(
  queue: QueueService,
  users: Users,
): Promise<{ ids: string[]; users: User[] }> {
  return queue.transaction(async (tx) => {
    const created: User[] = [];
    for (const [email, name] of PEOPLE) {
      const user = await users.insert(tx, email, name);
      if (!user) throw new Error(`The user ${email} exists already`);
      created.push(user);
    }
    const userId = created[0]!.id;
    const enqueued = await queue.enqueueMany(
      [
        { kind: 'send-email', payload: { userId } },
        { kind: 'deliver-webhook', payload: WEBHOOK },
        { kind: 'generate-export', payload: { table: 'users' } },
        { kind: 'sync-crm', payload: { userId } },
      ],
      { tx },
    );
    return { ids: enqueued.map(({ id }) => id), users: created };
  });
}

/** Reads the queue as anyone can, with SQL, until none of the jobs is pending. */
export function untilSettled(
  db: Pool,
  queueSchema: string,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<JobRow[]> {
  return poll(async () => {
    const rows = await readJobs(db, queueSchema, ids);
    const settled = rows.every(({ status }) => ['done', 'failed', 'cancelled'].includes(status));
    return rows.length === ids.length && settled ? rows : undefined;
  }, signal);
}

export async function readJobs(
  db: Pool,
  queueSchema: string,
  ids: readonly string[],
): Promise<JobRow[]> {
  const { rows } = await db.query<JobRow>(
    `select id::text, kind, status, attempts from ${queueSchema}.all_jobs
      where id = any($1::bigint[]) order by all_jobs.id`,
    [ids],
  );
  return rows;
}
