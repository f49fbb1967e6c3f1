import type { WorkerProcess } from '../support/processes.js';

/** What was accepted and what was taken back, append-only: the side of the callers. */
export class Ledger {
  /** Ids of jobs whose transaction has committed. */
  readonly accepted = new Set<string>();
  /** Ids that a transaction saw before it was rolled back. */
  readonly rolledBack = new Set<string>();
  /** Ids of failed jobs that were sent back to work, so that their attempts began anew. */
  readonly retried = new Set<string>();
  /** What callers were told besides an outage. */
  readonly faults: unknown[] = [];
}

/** One run of a handler, by what its process told. */
export interface Run {
  readonly id: string;
  readonly attempt: number;
  readonly process: string;
  readonly from: number;
  /** When the handler ended, was told to stop, or its process ended: from then on the job is not its own. */
  readonly until: number;
}

export function runsOf(processes: readonly WorkerProcess[]): Run[] {
  return processes.flatMap((worker) => {
    const ends = [...worker.all('finished'), ...worker.all('aborted')];
    return worker.all('started').map(({ id, attempt, at }) => {
      const later = ends.filter((end) => end.id === id && end.at >= at).map((end) => end.at);
      const until = Math.min(...later, worker.endedAt ?? Infinity);
      return { id, attempt, process: worker.name, from: at, until };
    });
  });
}

/** Runs of one job at the same time. */
export function overlaps(runs: readonly Run[]): [Run, Run][] {
  const found: [Run, Run][] = [];
  for (const ofOne of byJob(runs).values()) {
    ofOne.sort((a, b) => a.from - b.from);
    for (const [index, run] of ofOne.entries()) {
      const next = ofOne[index + 1];
      if (next && next.from < run.until) found.push([run, next]);
    }
  }
  return found;
}

function byJob(runs: readonly Run[]): Map<string, Run[]> {
  const jobs = new Map<string, Run[]>();
  for (const run of runs) jobs.set(run.id, [...(jobs.get(run.id) ?? []), run]);
  return jobs;
}
