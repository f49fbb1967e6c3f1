import type { Lane, Look, Position, Progress } from '../store/statements/exchange.js';

/** What is behind a position, a late commit say, is found within this time. */
const FULL_LOOK_EVERY_MS = 1_000;
/** Full looks take no more than a tenth of the time, however many dead rows they walk. */
const FULL_LOOK_SHARE = 10;
/** A look that is as short as this is not worth saving. */
const SHORT_LOOK_MS = 1;
/** More priorities than this are walked again: each costs a descent into the index. */
const MAX_POSITIONS = 8;
/** Sets of kinds that have turns left come and go; a lane that was forgotten is looked at from its start. */
const MAX_LANES = 500;

/** When something is to be looked at from its start: at `dueAt`, or before if wished, but not before `notBefore`. */
interface FullLook {
  isWished: boolean;
  dueAt: number;
  notBefore: number;
}

const AT_ONCE: FullLook = { isWished: true, dueAt: -Infinity, notBefore: -Infinity };

/** How far the claims of one lane have come. */
interface LaneState extends FullLook {
  /** At most one a priority, the most urgent one first. */
  positions: readonly Position[];
}

/** What to look at in one exchange. */
export interface LookPlan {
  readonly looks: readonly Look[];
  /** The lanes, by the index that their looks have. */
  readonly lanes: readonly { readonly key: string; readonly isFull: boolean }[];
  readonly dueAfter: string | undefined;
  /** Whether everything is looked at from its start: finding nothing then means that there is nothing. */
  readonly isFull: boolean;
}

const NO_LOOKS: LookPlan = { looks: [], lanes: [], dueAfter: undefined, isFull: false };

/**
 * Where claims begin. Rows that were taken stay in the ready index as dead entries for as long as any old
 * snapshot may see them, and every claim would walk them; so it begins after the last job that it took, in
 * each priority. What is behind that place is found by full looks.
 */
export class ResumePositions {
  private readonly lanes = new Map<string, LaneState>();
  private readonly scheduled: FullLook = { ...AT_ONCE };
  private dueAfter: string | undefined;
  /** The lanes of the latest plan: what is not asked for now keeps its wish, and nobody waits for it. */
  private asked: readonly LaneState[] = [];

  plan(lanes: readonly Lane[], now: number): LookPlan {
    if (lanes.length === 0) return NO_LOOKS;
    const looks: Look[] = [];
    this.asked = lanes.map((lane) => this.stateOf(keyOf(lane)));
    const states = lanes.map((lane, index) => {
      const key = keyOf(lane);
      const state = this.stateOf(key);
      const isFull = begins(state, now);
      looks.push(...stretches({ ...lane, lane: index }, isFull ? [] : state.positions));
      return { key, isFull };
    });
    const dueAfter = begins(this.scheduled, now) ? undefined : this.dueAfter;
    const isFull = dueAfter === undefined && states.every((lane) => lane.isFull);
    return { looks, lanes: states, dueAfter, isFull };
  }

  /** What the exchange found. */
  advance(plan: LookPlan, { dueAfter, last, took }: Progress, now: number): void {
    if (plan.dueAfter === undefined) looked(this.scheduled, took, now);
    this.dueAfter = dueAfter;
    for (const { key, isFull } of plan.lanes) {
      if (!isFull) continue;
      looked(this.stateOf(key), took, now);
    }
    for (const { look, position } of last) {
      const lane = plan.lanes[plan.looks[look]?.lane ?? -1];
      if (lane === undefined) continue;
      const state = this.stateOf(lane.key);
      state.positions = withPosition(state.positions, position);
    }
  }

  /** Something may have become due that is behind a position: the next looks are full, within their share. */
  lookFully(): void {
    for (const look of this.fullLooks()) look.isWished = true;
  }

  /**
   * Milliseconds until every full look that is wished for is allowed, of what was asked for last; undefined if
   * none is wished for.
   */
  fullLookIn(now: number): number | undefined {
    const wished = [this.scheduled, ...this.asked].filter(({ isWished }) => isWished);
    if (wished.length === 0) return undefined;
    return Math.max(0, ...wished.map(({ notBefore }) => notBefore - now));
  }

  private fullLooks(): FullLook[] {
    return [this.scheduled, ...this.lanes.values()];
  }

  private stateOf(key: string): LaneState {
    let state = this.lanes.get(key);
    if (state === undefined) {
      if (this.lanes.size === MAX_LANES) this.lanes.clear();
      state = { ...AT_ONCE, positions: [] };
      this.lanes.set(key, state);
    }
    return state;
  }
}

/** Whether to look from the start now. A wish that comes later is for another look. */
function begins(look: FullLook, now: number): boolean {
  if (now < look.notBefore || !(look.isWished || now >= look.dueAt)) return false;
  look.isWished = false;
  return true;
}

function looked(look: FullLook, took: number, now: number): void {
  look.notBefore = now + (took < SHORT_LOOK_MS ? 0 : FULL_LOOK_SHARE * took);
  look.dueAt = Math.max(look.notBefore, now + FULL_LOOK_EVERY_MS);
}

/** A lane that asks for other kinds has another past. */
function keyOf({ queue, only, except }: Lane): string {
  return JSON.stringify([queue, only, except]);
}

/** Before each position of a less urgent priority comes what is left of the more urgent ones. */
function stretches(look: Look, positions: readonly Position[]): Look[] {
  const [first] = positions;
  if (first === undefined) return [look];
  const rest = positions.map((after, index) => {
    const next = positions[index + 1];
    return { ...look, after, ...(next && { upto: next.priority - 1 }) };
  });
  return [{ ...look, upto: first.priority - 1 }, ...rest];
}

function withPosition(positions: readonly Position[], position: Position): readonly Position[] {
  const others = positions.filter(({ priority }) => priority !== position.priority);
  return [...others, position].toSorted((a, b) => a.priority - b.priority).slice(0, MAX_POSITIONS);
}
