import type { HandlerTable, RegisteredHandler } from '../contracts/handler.js';
import type { Lane } from '../store/statements/exchange.js';
import { countLong, JobDuration, prefetchOf, wantOf } from './prefetch.js';
import { WaitingJobs } from './waiting-jobs.js';

/** What a slot is taken for. */
export interface SlotUser {
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
}

/** Slots that are claimed for together: those of a queue, or those of one kind in its own queue. */
interface SlotGroup<Job extends SlotUser> {
  readonly queue: string;
  /** Undefined: the slots of a queue. */
  readonly kind: string | undefined;
  /** Kinds that wait for a turn of their own when they stand in this queue. */
  readonly gated: readonly string[];
  /** Kinds that have slots of their own in this queue. */
  readonly apart: readonly string[];
  readonly isOpen: boolean;
  limit: number;
  /** Slots taken. */
  held: number;
  /** The jobs that run, the oldest first, and since when. */
  readonly running: Map<Job, number>;
  /** Claimed beyond the free slots, so that none is empty while an exchange is on its way. */
  readonly waiting: WaitingJobs<Job>;
  readonly duration: JobDuration;
}

/** A kind with a concurrency of its own: what runs, and what has a slot and waits for its turn. */
interface Gate<Job> {
  readonly limit: number;
  running: number;
  waiting: Job[];
  /** Claimed from queues where it has no slots of its own, and without a slot so far. */
  claimed: number;
}

/**
 * What this process may still claim, and what of it may run. Every served queue has slots that its kinds
 * share; a kind with a concurrency of its own has slots of its own in its own queue. Such a kind may also
 * stand in another queue (somebody put it there), so that no job waits where nobody serves it: then it takes a
 * slot of that queue and a turn of its kind. It is claimed by a lane apart, for as many as there are turns;
 * where several queues were asked at once, what came too much waits in memory.
 */
export class Slots<Job extends SlotUser> {
  private readonly byQueue = new Map<string, SlotGroup<Job>>();
  private readonly byKind = new Map<string, SlotGroup<Job>>();
  private readonly gates = new Map<string, Gate<Job>>();
  private readonly groups: readonly SlotGroup<Job>[];

  constructor(handlers: HandlerTable, queues: ReadonlyMap<string, number>) {
    for (const handler of handlers.values()) this.addGate(handler, queues);
    for (const [queue, limit] of queues) {
      const apart = [...this.byKind.values()].flatMap((own) =>
        own.queue === queue && own.kind !== undefined ? [own.kind] : [],
      );
      const gated = [...this.gates.keys()].filter((kind) => !apart.includes(kind));
      const isOpen = handlers.size > this.gates.size;
      this.byQueue.set(queue, { ...group(queue, limit), gated, apart, isOpen });
    }
    this.groups = [...this.byKind.values(), ...this.byQueue.values()];
  }

  /**
   * What to claim: a lane for each kind with slots of its own, and for each queue with free slots.
   * @param roundTrip of an exchange in milliseconds, for which jobs are claimed ahead
   */
  lanes(roundTrip = 0, now = 0): Lane[] {
    return this.groups.flatMap((group) => {
      const { average } = group.duration;
      const slots = group.limit - countLong(group.running.values(), average, now);
      const ahead = prefetchOf(slots, average, roundTrip);
      return group.kind === undefined
        ? this.lanesOfQueue(group, ahead)
        : this.laneOfKind(group, group.kind, ahead);
    });
  }

  /** A job was claimed. {@link begin} answers it when it may run. */
  add(job: Job, now = 0): void {
    const group = this.groupOf(job);
    group.waiting.add(job, now);
    this.countClaimed(group, job, 1);
  }

  /** The claimed jobs that may run now; their slots are taken. */
  begin(now = 0): Job[] {
    return this.groups.flatMap((group) => this.beginIn(group, now));
  }

  /** Gives back the slot of a job that has ended. Answers the jobs whose turn it is now. */
  release(job: Job, now = 0): Job[] {
    const group = this.groupOf(job);
    group.held -= 1;
    group.duration.add(now - (group.running.get(job) ?? now));
    group.running.delete(job);
    const begun = this.passGate(job.kind);
    if (begun !== undefined) this.groupOf(begun).running.set(begun, now);
    const more = this.beginIn(group, now);
    return begun === undefined ? more : [begun, ...more];
  }

  /** Takes out jobs that have not begun, with their slots: all of them, or those that are wanted. */
  drainWaiting(isWanted: (job: Job) => boolean = () => true): Job[] {
    const atGates = [...this.gates.values()].flatMap((gate) => {
      const taken = gate.waiting.filter(isWanted);
      if (taken.length > 0) gate.waiting = gate.waiting.filter((job) => !isWanted(job));
      return taken;
    });
    for (const job of atGates) this.groupOf(job).held -= 1;
    return [...atGates, ...this.takeClaimed(isWanted)];
  }

  /** Takes out the jobs that were claimed before an instant and have not begun. */
  claimedBefore(instant: number): Job[] {
    return this.takeClaimed((_job, since) => since < instant);
  }

  /** From now on the queue has so many slots of its own; what runs beyond them goes on. */
  resize(queue: string, limit: number): void {
    const group = this.byQueue.get(queue);
    if (group !== undefined) group.limit = limit;
  }

  /** Whether jobs wait in memory. */
  get haveWaiting(): boolean {
    return this.groups.some(({ waiting }) => waiting.size > 0);
  }

  private takeClaimed(isWanted: (job: Job, since: number) => boolean): Job[] {
    return this.groups.flatMap((group) => {
      const jobs = group.waiting.take(isWanted);
      for (const job of jobs) this.countClaimed(group, job, -1);
      return jobs;
    });
  }

  private laneOfKind(group: SlotGroup<Job>, kind: string, ahead: number): Lane[] {
    const room = Math.min(group.limit - group.held, this.turns(kind));
    const want = wantOf(room - group.waiting.size, ahead);
    return want > 0 ? [{ queue: group.queue, only: [kind], want }] : [];
  }

  /** Kinds that must wait for a turn of their own have a lane apart, or they would fill the queue's slots. */
  private lanesOfQueue(group: SlotGroup<Job>, ahead: number): Lane[] {
    const { queue, apart, gated, isOpen, limit, held, waiting } = group;
    const slots = limit - held - waiting.size;
    const withRoom = slots > 0 ? gated.filter((kind) => this.room(kind) > 0) : [];
    const lanes: Lane[] = [];
    if (withRoom.length > 0) {
      const turns = Math.min(slots, ...withRoom.map((kind) => this.room(kind)));
      lanes.push({ queue, only: withRoom, want: turns });
    }
    const free = wantOf(slots, ahead);
    const except = [...apart, ...gated];
    if (isOpen && free > 0) {
      lanes.push({ queue, ...(except.length > 0 && { except }), want: free });
    }
    return lanes.length < 2 ? lanes : lanes.map((lane) => ({ ...lane, slots: queue, free }));
  }

  private beginIn(group: SlotGroup<Job>, now: number): Job[] {
    const begun: Job[] = [];
    while (group.held < group.limit) {
      const job = group.waiting.shift();
      if (job === undefined) break;
      group.held += 1;
      this.countClaimed(group, job, -1);
      if (!this.enterGate(job)) continue;
      group.running.set(job, now);
      begun.push(job);
    }
    return begun;
  }

  private countClaimed(group: SlotGroup<Job>, job: Job, by: number): void {
    const gate = group.kind === undefined ? this.gates.get(job.kind) : undefined;
    if (gate !== undefined) gate.claimed += by;
  }

  /** False: the job waits for its kind's turn. */
  private enterGate(job: Job): boolean {
    const gate = this.gates.get(job.kind);
    if (gate === undefined) return true;
    if (gate.running >= gate.limit) {
      gate.waiting.push(job);
      return false;
    }
    gate.running += 1;
    return true;
  }

  private passGate(kind: string): Job | undefined {
    const gate = this.gates.get(kind);
    const next = gate?.waiting.shift();
    if (gate !== undefined && next === undefined) gate.running -= 1;
    return next;
  }

  private addGate(handler: RegisteredHandler, queues: ReadonlyMap<string, number>): void {
    const { kind, queue, concurrency: limit } = handler;
    if (limit === undefined) return;
    this.gates.set(kind, { limit, running: 0, waiting: [], claimed: 0 });
    if (queues.has(queue)) this.byKind.set(kind, { ...group<Job>(queue, limit), kind });
  }

  private groupOf(job: SlotUser): SlotGroup<Job> {
    const own = this.byKind.get(job.kind);
    const group = own?.queue === job.queue ? own : this.byQueue.get(job.queue);
    if (group === undefined) throw new TypeError(`The queue ${job.queue} is not served here`);
    return group;
  }

  /** Turns of a kind that nobody has taken. */
  private turns(kind: string): number {
    const gate = this.gates.get(kind);
    return gate === undefined ? Infinity : gate.limit - gate.running - gate.waiting.length;
  }

  /** Turns of a kind that may be claimed for in a queue where it has no slots of its own. */
  private room(kind: string): number {
    return this.turns(kind) - (this.gates.get(kind)?.claimed ?? 0);
  }
}

function group<Job extends SlotUser>(queue: string, limit: number): SlotGroup<Job> {
  return {
    queue,
    kind: undefined,
    gated: [],
    apart: [],
    isOpen: false,
    limit,
    held: 0,
    running: new Map(),
    waiting: new WaitingJobs(),
    duration: new JobDuration(),
  };
}
