import type { Logger } from '@nestjs/common';
import { reconnectDelay } from '../contracts/delay.js';
import { planOf } from '../schedules/plan.js';
import { isConnectionUnusable } from '../store/errors.js';
import type { JobStore } from '../store/job-store.js';
import type {
  DueSchedule,
  FiredRow,
  FirePlan,
  ScheduleRow,
} from '../store/statements/schedules.js';
import { describeError } from './error-record.js';
import { Wakeup } from './wakeup.js';

const BATCH = 200;
/** A look without a reason: a notification may be lost, a worker may have died with what it declared. */
const LOOK_EVERY_MS = 15_000;
/** What is wrong with a schedule is looked at again, and told of again, this often. */
const TRY_AGAIN_MS = 15_000;
/** Somebody has the row of a schedule locked, mostly to fire it. */
const STUCK_MS = { first: 5, most: 250 };

/**
 * Fires schedules. Every worker plans what is due next, sleeps until then, and sends the plans; the row of each
 * schedule decides whose plan counts.
 */
export class Scheduler {
  private readonly wakeup = new Wakeup();
  private readonly startedAt = performance.now();
  private undeclaredTo: string | undefined;
  private running: Promise<void> | undefined;
  private stopped = false;
  /** What is due when the wait that follows is over: planned before, so that it has only to be sent. */
  private ahead: readonly FirePlan[] | undefined;
  private failures = 0;
  private stuck = 0;

  constructor(
    private readonly store: JobStore,
    /** What this application's code declares. */
    private readonly schedules: readonly ScheduleRow[],
    /** Jobs were made. */
    private readonly fired: () => void,
    private readonly logger: Logger,
  ) {}

  /** The worker has begun a life under this id: first of all it says what its code declares. */
  begin(workerId: string): void {
    this.undeclaredTo = workerId;
    this.running ??= this.run();
    this.ring();
  }

  /** Schedules may have changed. */
  ring(): void {
    this.wakeup.ring();
  }

  /** Nothing is fired any more; resolves when what is under way has ended. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.ring();
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.stopped) {
      this.wakeup.within(await this.turn());
      const isRung = await this.wakeup.wait();
      if (isRung) this.ahead = undefined;
    }
  }

  /** Milliseconds until the next one. Never rejects. */
  private async turn(): Promise<number> {
    try {
      const plans = this.ahead;
      this.ahead = undefined;
      await this.declare();
      const wait = plans ? await this.fire(plans) : await this.look();
      this.failures = 0;
      return wait;
    } catch (error) {
      this.failures += 1;
      // Of an outage the exchange loop tells, once.
      const level = isConnectionUnusable(error) ? 'debug' : 'warn';
      const { message } = describeError(error);
      this.logger[level](`Schedules could not be looked at (${message}); trying again`);
      return reconnectDelay(this.failures);
    }
  }

  private async declare(): Promise<void> {
    const worker = this.undeclaredTo;
    if (worker === undefined) return;
    const age = performance.now() - this.startedAt;
    for (const name of await this.store.declareSchedules(worker, age, this.schedules)) {
      this.logger.warn(
        `The schedule '${name}' of @JobSchedule is left out: one of that name was made by hand. Remove that one, or rename one of them`,
      );
    }
    if (this.undeclaredTo === worker) this.undeclaredTo = undefined;
  }

  private async look(): Promise<number> {
    const found = await this.store.dueSchedules(BATCH);
    if (found === undefined || found.dueIn > LOOK_EVERY_MS || this.stopped) return LOOK_EVERY_MS;
    const { dueIn, dueAt, due } = found;
    const plans = due.map((schedule) => firePlan(schedule, dueAt));
    if (dueIn <= 0) return this.fire(plans);
    // Whatever is wrong with one now may be right by then: that one is looked at again.
    this.ahead = plans.filter(({ problem }) => problem === undefined);
    return dueIn;
  }

  private async fire(plans: readonly FirePlan[]): Promise<number> {
    const rows = await this.store.fireSchedules(plans);
    for (const row of rows) this.tell(row, plans);
    if (rows.some(({ fired }) => fired > 0)) this.fired();
    const isStuck = rows.some(({ outcome }) => outcome === 'busy' || outcome === 'early');
    this.stuck = isStuck ? this.stuck + 1 : 0;
    return isStuck ? Math.min(STUCK_MS.first * 2 ** this.stuck, STUCK_MS.most) : 0;
  }

  /** By the process whose plan counted, so once for all of them. */
  private tell({ name, outcome, fired }: FiredRow, plans: readonly FirePlan[]): void {
    const problem =
      outcome === 'planned'
        ? plans.find((plan) => plan.name === name)?.problem
        : /^refused: (.*)/s.exec(outcome)?.[1];
    if (problem !== undefined) {
      this.logger.warn(`The schedule '${name}' can't fire: ${problem}. It is tried again`);
    } else if (fired > 0) {
      this.logger.debug(`The schedule '${name}' fired (${fired} jobs)`);
    }
  }
}

/** One schedule's trouble is not another's. */
function firePlan(schedule: DueSchedule, at: number): FirePlan {
  const { name, turn, kind, queue, isHandled } = schedule;
  const unable = (problem: string): FirePlan => ({
    name,
    turn,
    slots: [],
    handledTo: null,
    next: null,
    again: TRY_AGAIN_MS,
    problem,
  });
  try {
    const plan = planOf(schedule, at);
    if (isHandled) return { name, turn, ...plan };
  } catch (error) {
    return unable(describeError(error).message);
  }
  return unable(`no live worker handles the kind '${kind}' in the queue '${queue}'`);
}
