import { Injectable, type OnModuleInit } from '@nestjs/common';
import type { QueueTransaction } from 'nestjs-pg-queue';
import { Pool } from 'pg';

export interface User {
  readonly id: string;
  readonly email: string;
  readonly name: string;
}

const PAGE_SIZE = 1_000;

@Injectable()
export class Users implements OnModuleInit {
  constructor(private readonly db: Pool) {}

  /**
   * One text, so one transaction: the lock is needed because processes that start together would
   * race in `create table if not exists`.
   */
  async onModuleInit(): Promise<void> {
    await this.db.query(`
      select pg_advisory_xact_lock(hashtext('nestjs-pg-queue sample: users'));
      create table if not exists users (
        id bigint generated always as identity primary key,
        email text not null unique,
        name text not null,
        created_at timestamptz not null default now()
      )`);
  }

  /** On the caller's transaction; undefined if the e-mail address is taken. */
  async insert(tx: QueueTransaction, email: string, name: string): Promise<User | undefined> {
    const { rows } = await tx.query<User>(
      `insert into users (email, name) values ($1, $2) on conflict (email) do nothing
       returning id::text, email, name`,
      [email, name],
    );
    return rows[0];
  }

  async find(id: string): Promise<User | undefined> {
    const { rows } = await this.db.query<User>(
      'select id::text, email, name from users where id = $1',
      [id],
    );
    return rows[0];
  }

  /** All users in order of id, a page at a time, so that memory does not grow with the table. */
  async *all(): AsyncGenerator<User> {
    let last = '0';
    for (;;) {
      const { rows } = await this.db.query<User>(
        'select id::text, email, name from users where id > $1 order by users.id limit $2',
        [last, PAGE_SIZE],
      );
      yield* rows;
      const end = rows.at(-1);
      if (!end || rows.length < PAGE_SIZE) return;
      last = end.id;
    }
  }
}
