import { PgQueueError } from '../contracts/errors.js';
import type { DeclaredSchedule } from '../contracts/handler.js';

/** The schedules of each kind that a method handles; what is in their options is checked later. */
export function schedulesByKind(
  origin: string,
  kinds: readonly string[],
  schedules: readonly DeclaredSchedule[],
): ReadonlyMap<string, readonly DeclaredSchedule[]> {
  const byKind = new Map<string, DeclaredSchedule[]>();
  for (const schedule of schedules) {
    const kind = schedule.options?.kind ?? (kinds.length === 1 ? kinds[0] : undefined);
    if (kind === undefined || !kinds.includes(kind)) throw noKind(origin, kind, kinds);
    byKind.set(kind, [...(byKind.get(kind) ?? []), schedule]);
  }
  return byKind;
}

function noKind(origin: string, kind: string | undefined, kinds: readonly string[]): PgQueueError {
  const known = kinds.map((name) => `'${name}'`).join(', ');
  const problem =
    kinds.length === 0
      ? 'which has no @JobHandler. Add one: a schedule makes jobs of its kind.'
      : kind === undefined
        ? `which handles several kinds. Say which one by the option \`kind\`: ${known}.`
        : `with the kind '${kind}', which that method does not handle. It handles ${known}.`;
  return new PgQueueError('INVALID_HANDLER', `@JobSchedule is on ${origin}, ${problem}`);
}
