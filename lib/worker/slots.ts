import type { HandlerTable, RegisteredHandler } from '../contracts/handler.js';
import type { Lane } from '../store/statements/exchange.js';

/** Slots that are claimed for together: those of a queue, or those of one kind in its own queue. */
interface SlotGroup {
  readonly queue: string;
  readonly kinds: readonly string[];
  readonly limit: number;
  held: number;
}

/** A kind with a concurrency of its own: what runs, and what was claimed and waits for its turn. */
interface Gate<Job> {
  readonly limit: number;
  running: number;
  readonly waiting: Job[];
}

/** What a slot is taken for. */
interface SlotUser {
  readonly queue: string;
  readonly kind: string;
}

/**
 * What this process may still claim. Every served queue has slots that its kinds share; a kind with a
 * concurrency of its own has slots of its own in its own queue. Such a kind may also stand in another queue
 * (somebody put it there), so that no job waits where nobody serves it: then it takes a slot of that queue
 * and a turn of its kind. It is claimed by a lane apart, for as many as there are turns; where several
 * queues were asked at once, what came too much waits in memory.
 */
export class Slots<Job extends SlotUser> {
  private readonly byQueue = new Map<string, SlotGroup>();
  private readonly byKind = new Map<string, SlotGroup>();
  private readonly gates = new Map<string, Gate<Job>>();

  constructor(handlers: HandlerTable, queues: ReadonlyMap<string, number>) {
    for (const handler of handlers.values()) this.addGate(handler, queues);
    for (const [queue, limit] of queues) {
      const kinds = [...handlers.values()]
        .filter((handler) => !this.byKind.has(handler.kind) || handler.queue !== queue)
        .map((handler) => handler.kind);
      this.byQueue.set(queue, { queue, kinds, limit, held: 0 });
    }
  }

  /** Whether a job of this queue could be claimed here at all. */
  serves(queue: string): boolean {
    return this.byQueue.has(queue);
  }

  /** What to claim: a lane for each kind with slots of its own, and for each queue with free slots. */
  lanes(): Lane[] {
    const lanes: Lane[] = [];
    for (const { queue, kinds, limit, held } of this.byKind.values()) {
      const want = Math.min(limit - held, ...kinds.map((kind) => this.room(kind)));
      if (want > 0) lanes.push({ queue, kinds, want });
    }
    for (const group of this.byQueue.values()) lanes.push(...this.lanesOf(group));
    return lanes;
  }

  /** Kinds that must wait for a turn of their own have a lane apart, or they would fill the queue's slots. */
  private lanesOf({ queue, kinds, limit, held }: SlotGroup): Lane[] {
    const free = limit - held;
    if (free <= 0) return [];
    const gated = kinds.filter((kind) => this.gates.has(kind) && this.room(kind) > 0);
    const open = kinds.filter((kind) => !this.gates.has(kind));
    const turns = Math.min(free, ...gated.map((kind) => this.room(kind)));
    const lanes: Lane[] = [];
    if (gated.length > 0) lanes.push({ queue, kinds: gated, want: turns });
    if (open.length > 0) lanes.push({ queue, kinds: open, want: free });
    return lanes.length < 2 ? lanes : lanes.map((lane) => ({ ...lane, slots: queue, free }));
  }

  /** Takes a slot for a claimed job. False: it waits for its kind's turn, {@link release} will answer it. */
  take(job: Job): boolean {
    this.groupOf(job).held += 1;
    const gate = this.gates.get(job.kind);
    if (gate === undefined) return true;
    if (gate.running >= gate.limit) {
      gate.waiting.push(job);
      return false;
    }
    gate.running += 1;
    return true;
  }

  /** Gives back the slot of a job that ran. Answers the job whose turn it is now, already counted. */
  release(job: Job): Job | undefined {
    this.groupOf(job).held -= 1;
    const gate = this.gates.get(job.kind);
    if (gate === undefined) return undefined;
    const next = gate.waiting.shift();
    if (next === undefined) gate.running -= 1;
    return next;
  }

  /** Takes out all jobs that wait for their turn, with their slots. */
  drainWaiting(): Job[] {
    const waiting = [...this.gates.values()].flatMap((gate) => gate.waiting.splice(0));
    for (const job of waiting) this.groupOf(job).held -= 1;
    return waiting;
  }

  private addGate(handler: RegisteredHandler, queues: ReadonlyMap<string, number>): void {
    const { kind, queue, concurrency: limit } = handler;
    if (limit === undefined) return;
    this.gates.set(kind, { limit, running: 0, waiting: [] });
    if (queues.has(queue)) this.byKind.set(kind, { queue, kinds: [kind], limit, held: 0 });
  }

  private groupOf(job: SlotUser): SlotGroup {
    const own = this.byKind.get(job.kind);
    const group = own?.queue === job.queue ? own : this.byQueue.get(job.queue);
    if (group === undefined) throw new TypeError(`The queue ${job.queue} is not served here`);
    return group;
  }

  private room(kind: string): number {
    const gate = this.gates.get(kind);
    return gate === undefined ? Infinity : gate.limit - gate.running - gate.waiting.length;
  }
}
