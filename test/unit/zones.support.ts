/** Until when clocks in a zone are how far ahead of UTC, in milliseconds. */
export interface Stretch {
  readonly since: number;
  readonly until: number;
  readonly offset: number;
}

const DAY_MS = 86_400_000;

export function everyZone(): string[] {
  return Intl.supportedValuesOf('timeZone');
}

const known = new Map<string, Stretch[]>();

/** The offsets of a zone from one instant to another: looked up once a day, changes found by halving. */
export function offsetsOf(zone: string, from: number, to: number): Stretch[] {
  const key = `${zone} ${from} ${to}`;
  const found = known.get(key) ?? findOffsets(zone, from, to);
  known.set(key, found);
  return found;
}

function findOffsets(zone: string, from: number, to: number): Stretch[] {
  const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
  const offsetAt = (instant: number): string => format.format(instant).split(', ')[1] ?? '';
  const stretches: Stretch[] = [];
  let since = from;
  let offset = offsetAt(from);
  for (let instant = from + DAY_MS; instant <= to; instant += DAY_MS) {
    if (offsetAt(instant) === offset) continue;
    let [low, high] = [instant - DAY_MS, instant];
    while (high - low > 1_000) {
      const middle = Math.round((low + high) / 2_000) * 1_000;
      if (offsetAt(middle) === offset) low = middle;
      else high = middle;
    }
    stretches.push({ since, until: high, offset: milliseconds(offset) });
    since = high;
    offset = offsetAt(instant);
  }
  stretches.push({ since, until: Infinity, offset: milliseconds(offset) });
  return stretches;
}

/** Of `GMT`, `GMT+05:45` and the like. */
function milliseconds(name: string): number {
  const [, sign, hours, minutes, seconds = 0] =
    /^GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(name) ?? [];
  if (sign === undefined) return 0;
  const total = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
  return (sign === '-' ? -1_000 : 1_000) * total;
}
