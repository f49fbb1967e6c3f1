import { PgQueueError } from '../contracts/errors.js';
import type { QueueTransaction } from '../contracts/transaction.js';
import type { Database } from './database.js';

/**
 * Runs `work` in a transaction on one of the callers' connections: commits when it resolves, rolls back when it
 * throws. The client that `work` gets is of no use after that.
 */
export function callersTransaction<T>(
  database: Database,
  work: (tx: QueueTransaction) => Promise<T>,
): Promise<T> {
  return database.callers.transaction(async (client) => {
    let hasEnded = false;
    const tx: QueueTransaction = {
      // Async, so that it rejects: the client may be in somebody else's transaction by then.
      query: async (text, values) => {
        if (hasEnded) throw transactionEnded();
        return client.query(text, values);
      },
    };
    try {
      return await work(tx);
    } finally {
      hasEnded = true;
    }
  });
}

function transactionEnded(): PgQueueError {
  return new PgQueueError(
    'TRANSACTION_ENDED',
    'The `tx` was used after its transaction had ended. Await everything that uses it inside the function given to `transaction`.',
  );
}
