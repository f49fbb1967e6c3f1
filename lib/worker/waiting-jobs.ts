/** Claimed jobs that have not begun: the more urgent ones first, else in the order in which they came. */
export class WaitingJobs<Job extends { readonly priority: number }> {
  private entries: { readonly job: Job; readonly since: number }[] = [];
  private first = 0;

  get size(): number {
    return this.entries.length - this.first;
  }

  add(job: Job, since: number): void {
    let at = this.entries.length;
    while (at > this.first && (this.entries[at - 1]?.job.priority ?? 0) > job.priority) at -= 1;
    if (at === this.entries.length) this.entries.push({ job, since });
    else this.entries.splice(at, 0, { job, since });
  }

  shift(): Job | undefined {
    const entry = this.entries[this.first];
    if (entry === undefined) return undefined;
    this.first += 1;
    // Array.prototype.shift moves the rest; a position does not.
    if (this.first === this.entries.length) {
      this.entries = [];
      this.first = 0;
    }
    return entry.job;
  }

  /** Takes out those that came before an instant. */
  takeOlderThan(instant: number): Job[] {
    return this.take((_job, since) => since < instant);
  }

  /** Takes out those that are wanted. */
  take(isWanted: (job: Job, since: number) => boolean): Job[] {
    const taken: Job[] = [];
    this.entries = this.entries.slice(this.first).filter((entry) => {
      const { job, since } = entry;
      if (!isWanted(job, since)) return true;
      taken.push(job);
      return false;
    });
    this.first = 0;
    return taken;
  }
}
