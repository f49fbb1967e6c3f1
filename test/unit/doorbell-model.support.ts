/** What an enqueuer does, one step after the other, see pgqueue.ring. The order is the protocol. */
export type EnqueuerStep =
  /** Says that it is enqueuing: others can see it until it releases that. */
  | 'takes E'
  /** Looks whether anybody waits: tries to have W alone, and will ring if that is refused. */
  | 'tries W'
  | 'gives W back'
  /** Its job becomes visible. Or it rolls back: then there is neither a job nor a ring. */
  | 'commits'
  | 'releases E'
  | 'rings';

/** What a worker does, see worker/doorbell. After `sleeps` it begins again, with the first step. */
export type WorkerStep =
  /** Claims all that is visible. If it finds something it may let go of W, and looks again. */
  | 'looks'
  /** Asks to be rung for, again and again while an enqueuer has W alone. */
  | 'takes W'
  /** Asks once, and takes a refusal for an answer. */
  | 'asks for W once'
  /** Notes who is enqueuing. */
  | 'reads E'
  /** Until those that it noted have ended. */
  | 'awaits them'
  | 'looks again'
  | 'forgets rings'
  /** Until it is rung for. */
  | 'sleeps';

export interface Protocol {
  readonly enqueuer: readonly EnqueuerStep[];
  readonly worker: readonly WorkerStep[];
}

export interface Cast {
  readonly enqueuers: number;
  /** Of each enqueuer, one after the other. One job each. Default 1. */
  readonly transactions?: number;
  readonly workers: number;
}

export interface Exploration {
  /** How many states can be reached. */
  readonly states: number;
  /** In how many of them nobody has anything left to do. */
  readonly rests: number;
  /** The shortest way to a rest in which a committed job is unclaimed, or a worker does not sleep. */
  readonly counterexample?: readonly string[];
}

interface Enqueuer {
  /** An index into the protocol. */
  readonly step: number;
  /** The transaction that it is in, from 0. */
  readonly transaction: number;
  /** It saw somebody wait. */
  readonly willRing: boolean;
}

interface Worker {
  readonly step: number;
  readonly hasW: boolean;
  /** Transactions that were enqueuing when it looked, as bits. */
  readonly noted: number;
  /** A ring that it has not answered. */
  readonly isRung: boolean;
}

interface State {
  readonly enqueuers: readonly Enqueuer[];
  readonly workers: readonly Worker[];
  /** Who has W alone for the moment. */
  readonly wAlone: number | null;
  /** Transactions that hold E, as bits. */
  readonly e: number;
  /** Jobs that are committed and unclaimed, as bits. */
  readonly jobs: number;
}

/** A step that somebody could take now. */
interface Move {
  readonly what: string;
  readonly next: State;
}

/** Tries all interleavings of the steps of everybody, breadth first. */
export function explore(protocol: Protocol, cast: Cast): Exploration {
  const first: State = {
    enqueuers: Array.from({ length: cast.enqueuers }, () => START_OF_ENQUEUER),
    workers: Array.from({ length: cast.workers }, () => START_OF_WORKER),
    wAlone: null,
    e: 0,
    jobs: 0,
  };
  const model = new Model(protocol, cast.transactions ?? 1);
  /** How each state was reached first. */
  const origins = new Map<string, { from: string; what: string } | undefined>();
  origins.set(JSON.stringify(first), undefined);
  const queue = [first];
  let rests = 0;
  for (let state = queue[0], at = 0; state !== undefined; state = queue[++at]) {
    const key = JSON.stringify(state);
    const moves = model.moves(state);
    if (moves.length === 0) {
      rests += 1;
      if (!model.isGood(state)) {
        return { states: origins.size, rests, counterexample: wayTo(key, origins) };
      }
    }
    for (const { what, next } of moves) {
      const nextKey = JSON.stringify(next);
      if (origins.has(nextKey)) continue;
      origins.set(nextKey, { from: key, what });
      queue.push(next);
    }
  }
  return { states: origins.size, rests };
}

const START_OF_ENQUEUER: Enqueuer = { step: 0, transaction: 0, willRing: false };
const START_OF_WORKER: Worker = { step: 0, hasW: false, noted: 0, isRung: false };

class Model {
  constructor(
    private readonly protocol: Protocol,
    private readonly transactions: number,
  ) {}

  /** What may happen next. Whoever has to wait for others has no move. */
  moves(state: State): Move[] {
    return [
      ...state.enqueuers.flatMap((enqueuer, who) => this.ofEnqueuer(state, enqueuer, who)),
      ...state.workers.flatMap((worker, who) => this.ofWorker(state, worker, who)),
    ];
  }

  /** Of a state in which there is no move left. */
  isGood({ workers, jobs }: State): boolean {
    return jobs === 0 && workers.every(({ step }) => this.protocol.worker[step] === 'sleeps');
  }

  private ofEnqueuer(state: State, self: Enqueuer, who: number): Move[] {
    if (self.transaction === this.transactions) return [];
    const step = this.protocol.enqueuer[self.step];
    if (step === undefined) throw new Error('The steps of an enqueuer have run out');
    const bit = 1 << (who * this.transactions + self.transaction);
    /** Goes on with its steps, or with its next transaction. */
    const move = (changes: Partial<State> = {}, own: Partial<Enqueuer> = {}, steps = 1): Move => {
      const isOver = self.step + steps === this.protocol.enqueuer.length;
      const next = isOver
        ? { ...START_OF_ENQUEUER, transaction: self.transaction + 1 }
        : { ...self, step: self.step + steps, ...own };
      const enqueuers = state.enqueuers.with(who, next);
      return { what: `enqueuer ${who} ${step}`, next: { ...state, enqueuers, ...changes } };
    };
    switch (step) {
      case 'takes E':
        return [move({ e: state.e | bit })];
      case 'tries W': {
        const isFree = state.wAlone === null && state.workers.every(({ hasW }) => !hasW);
        return [isFree ? move({ wAlone: who }) : move({}, { willRing: true }, 2)];
      }
      case 'gives W back':
        return [move({ wAlone: null })];
      case 'commits': {
        const rollback = move({}, { willRing: false });
        return [
          move({ jobs: state.jobs | bit }),
          { ...rollback, what: `enqueuer ${who} rolls back` },
        ];
      }
      case 'releases E':
        return [move({ e: state.e & ~bit })];
      case 'rings':
        if (!self.willRing) return [move()];
        return [move({ workers: state.workers.map((worker) => ({ ...worker, isRung: true })) })];
    }
  }

  private ofWorker(state: State, self: Worker, who: number): Move[] {
    const { worker: steps } = this.protocol;
    const step = steps[self.step];
    if (step === undefined) throw new Error('The steps of a worker have run out');
    const move = (own: Partial<Worker> = {}, changes: Partial<State> = {}): Move => {
      const workers = state.workers.with(who, { ...self, step: self.step + 1, ...own });
      return { what: `worker ${who} ${step}`, next: { ...state, workers, ...changes } };
    };
    switch (step) {
      case 'looks':
      case 'looks again': {
        // Who is rung for already need not lie down.
        const then = self.hasW ? { step: steps.indexOf('sleeps') } : {};
        const next = move(step === 'looks' ? then : {}, { jobs: 0 });
        if (state.jobs === 0) return [next];
        const letGo = move({ step: 0, hasW: false, noted: 0 }, { jobs: 0 });
        return [next, { ...letGo, what: `worker ${who} finds jobs and lets go of W` }];
      }
      case 'takes W':
        return state.wAlone === null ? [move({ hasW: true })] : [];
      case 'asks for W once':
        return [move({ hasW: state.wAlone === null })];
      case 'reads E':
        return [move({ noted: state.e })];
      case 'awaits them':
        return (self.noted & state.e) === 0 ? [move({ noted: 0 })] : [];
      case 'forgets rings':
        return [move({ isRung: false })];
      case 'sleeps':
        return self.isRung ? [move({ step: 0, isRung: false })] : [];
    }
  }
}

function wayTo(
  key: string,
  origins: ReadonlyMap<string, { from: string; what: string } | undefined>,
): string[] {
  const way: string[] = [];
  for (let origin = origins.get(key); origin !== undefined; origin = origins.get(origin.from)) {
    way.unshift(origin.what);
  }
  return way;
}
