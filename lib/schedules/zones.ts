/** What a clock on the wall shows, as if it were UTC: milliseconds since 1970. */
export type WallTime = number;

const DAY_MS = 86_400_000;

const formats = new Map<string, Intl.DateTimeFormat>();

/** Whether this runtime knows the IANA zone. Offsets such as `+02:00` are none: they know no summer time. */
export function isZone(zone: unknown): zone is string {
  if (typeof zone !== 'string' || !/^[A-Za-z]/.test(zone)) return false;
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** How far clocks in the zone are ahead of UTC at an instant, in milliseconds. */
export function offsetAt(zone: string, instant: number): number {
  if (zone === 'UTC') return 0;
  const part: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(instant)) part[type] = Number(value);
  const { year = 0, month = 0, day, hour, minute, second } = part;
  const wall = Date.UTC(year, month - 1, day, hour, minute, second);
  return wall - Math.floor(instant / 1_000) * 1_000;
}

/**
 * The one instant that stands for a wall time, to be used for whole seconds: the first one where clocks show
 * it twice, and the first valid one after it where clocks leap over it.
 */
export function instantOf(zone: string, wall: WallTime): number {
  const [before, after] = [offsetAt(zone, wall - DAY_MS), offsetAt(zone, wall + DAY_MS)];
  const [early, late] = [wall - Math.max(before, after), wall - Math.min(before, after)];
  if (early + offsetAt(zone, early) === wall) return early;
  if (late + offsetAt(zone, late) === wall) return late;
  return changeIn(zone, early, late);
}

/** The first instant after `from` at which the offset is another one, if it changes once until `to`. */
export function changeIn(zone: string, from: number, to: number): number {
  const offset = offsetAt(zone, from);
  let [low, high] = [from, to];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(zone, middle) === offset) low = middle;
    else high = middle;
  }
  return high;
}

/** Made once: it takes 50 times as long as a look. */
function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(zone, format);
  }
  return format;
}
