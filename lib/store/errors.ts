/** SQLSTATE of an error, else its system code such as ECONNREFUSED, else undefined. Never throws. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
}

/** SQLSTATEs, or classes of them, after which a connection is of no use. */
const FATAL_STATES = [
  '08', // connection exception
  '25006', // read only: a server that was the primary
  '53300', // too many connections
  '57P', // shutdown, crash, cannot connect now, database dropped
  '58', // system error
  'XX', // internal error
];

/** Whether PostgreSQL itself answered with this error. A system code such as EPIPE looks like an SQLSTATE. */
export function isAnswer(error: unknown): boolean {
  return /^[0-9A-Z]{5}$/.test(errorCode(error) ?? '') && 'severity' in (error as object);
}

/**
 * Whether an error of a statement means that its client must be destroyed: PostgreSQL did not answer (the
 * connection broke, the time was over), or it answered that this server or session can't go on.
 */
export function isConnectionUnusable(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  return !isAnswer(error) || FATAL_STATES.some((state) => code.startsWith(state));
}

/**
 * The server session is not the one that prepared the statement, or somebody else prepared it there: a pooler
 * stands between. Nothing was executed.
 */
export function isLostPreparation(error: unknown): boolean {
  return ['26000', '42P05'].includes(errorCode(error) ?? '');
}

/** Errors of values (data, constraints, limits of size): sending the same again fails again. */
export function isBadData(error: unknown): boolean {
  return /^(22|23|42804|54)/.test(errorCode(error) ?? '');
}

/** An insert into the history found no partition for its day. */
export function isMissingDay(error: unknown): boolean {
  const { table, constraint } = error as { table?: string; constraint?: string };
  return errorCode(error) === '23514' && table === 'done_jobs' && constraint === undefined;
}
