/**
 * Anything that runs SQL on your transaction: a `pg` client, a TypeORM `EntityManager` or
 * `QueryRunner`, or your own two lines around another driver. It must answer rows of objects, either
 * as an array or under `rows`.
 */
export interface TransactionHandle {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

/** What `QueueService.transaction` gives you: the client that your statements and `enqueue` share. */
export interface QueueTransaction {
  /** Rows are what your SQL makes them: `any` as in `pg`, unless you give the type. */
  // oxlint-disable-next-line typescript/no-explicit-any
  query<Row = any>(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>;
}
