/** What a worker process of the flow demo tells: when a job of a kind began, ended or was aborted. */
export interface Report {
  readonly what: 'began' | 'ended' | 'aborted';
  readonly kind: string;
  readonly tenant?: string;
  /** The slot of a schedule, in milliseconds since 1970. */
  readonly slot?: number;
  /** Milliseconds since 1970, with fractions; all processes are on one machine. */
  readonly at: number;
}

export function now(): number {
  return performance.timeOrigin + performance.now();
}

export function report(said: Omit<Report, 'at'>): void {
  process.send?.({ ...said, at: now() } satisfies Report);
}
