import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@nestjs/common';
import type { Database } from '../store/database.js';
import { Listener } from '../store/listener.js';
import { enqueuing, letGo, wait } from '../store/statements/workers.js';
import { describeError } from './error-record.js';
import { Rest } from './rest.js';

/** A session that is lost again and again (an idle time-out of the server, say) is told of this often. */
const TELL_EVERY_MS = 60_000;
/** Somebody was just looking whether anybody waits: that takes microseconds. */
const ASK_AGAIN_MS = 1;
const MOST_ASKS = 20;
/** How often to look whether transactions that were enqueuing have ended. */
const ENDED_MS = { first: 1, most: 250 };

export interface DoorbellEvents {
  /** Jobs may have become due in a queue that is served here. */
  ring(): void;
  /** Somebody has changed what holds for all workers: notifications without a queue's name say so. */
  settingsChanged(): void;
  /** Somebody cancelled an attempt, `id:leaseNo`. */
  cancel(attempt: string): void;
}

/**
 * Rings when jobs may have become due in a queue that is served here. Whoever enqueues sends a notification
 * only while somebody waits for it (see pgqueue.ring), so this says when the worker does and when not.
 */
export class Doorbell {
  private readonly listener: Listener;
  private readonly rest = new Rest();
  /** `waiting`: whoever enqueues rings, and what was enqueued before that has been looked for. */
  private state: 'no session' | 'awake' | 'lying down' | 'waiting' = 'no session';
  /** Counts the changes of state, so that what is under way notices that it is out of date. */
  private changes = 0;
  private toldAt = -Infinity;

  constructor(
    database: Database,
    private readonly queues: readonly string[],
    private readonly events: DoorbellEvents,
    private readonly logger: Logger,
  ) {
    const served = new Set(queues);
    this.listener = new Listener(database, {
      ring: (queue) => {
        if (queue === '') events.settingsChanged();
        else if (served.has(queue)) this.rang();
      },
      cancel: (attempt) => events.cancel(attempt),
      up: (isBack) => this.up(isBack),
      down: (error) => this.down(error),
    });
  }

  start(): void {
    this.listener.start();
  }

  stop(): Promise<void> {
    this.become('no session');
    return this.listener.stop();
  }

  /** Whether everything that may have become due rings. */
  get isWaiting(): boolean {
    return this.state === 'waiting';
  }

  /** Whether notifications are heard at all. */
  get isListening(): boolean {
    return this.state !== 'no session';
  }

  /** After a turn: milliseconds until the next look if nothing rings; undefined = the usual poll. */
  after(turn: { found: number; hasSpare: boolean }): number | undefined {
    if (this.state === 'no session') return undefined;
    const { doorbell, pollIn } = this.rest.after(turn, performance.now());
    if (doorbell === 'wait' && this.state === 'awake') void this.lieDown();
    if (doorbell === 'let go') this.getUp();
    return pollIn;
  }

  private rang(): void {
    if (this.rest.rang(performance.now())) this.getUp();
    this.events.ring();
  }

  /** Asks to be rung for, then looks at what was enqueued by those who could not see that. */
  private async lieDown(): Promise<void> {
    const change = this.become('lying down');
    const isCurrent = () => this.changes === change;
    try {
      let { refused, enqueuing: before } = await this.listener.ask(wait, this.queues);
      for (let asks = 1; refused > 0 && isCurrent(); asks += 1) {
        if (asks === MOST_ASKS) {
          this.getUp();
          return this.events.ring(); // and try again after that turn
        }
        await sleep(ASK_AGAIN_MS);
        if (!isCurrent()) return; // else this would take again what was let go meanwhile
        ({ refused, enqueuing: before } = await this.listener.ask(wait, this.queues));
      }
      for (let ms = ENDED_MS.first; before.length > 0 && isCurrent(); ms *= 2) {
        await sleep(Math.min(ms, ENDED_MS.most), undefined, { ref: false });
        const now = new Set(await this.listener.ask(enqueuing, this.queues));
        before = before.filter((transaction) => now.has(transaction));
      }
      if (!isCurrent()) return;
      this.become('waiting');
      this.events.ring();
    } catch {
      // The session is broken, or as good as: the listener says so itself. Until then, polling.
      if (isCurrent()) this.become('awake');
    }
  }

  private getUp(): void {
    if (this.state !== 'lying down' && this.state !== 'waiting') return;
    this.become('awake');
    this.listener.ask(letGo, undefined).catch(ignore); // without a session there is nothing to let go
  }

  private become(state: Doorbell['state']): number {
    this.state = state;
    this.changes += 1;
    return this.changes;
  }

  private up(isBack: boolean): void {
    this.become('awake');
    if (isBack) this.logger.debug('The listener is back');
    this.events.ring();
    this.events.settingsChanged();
  }

  private down(error: unknown): void {
    this.become('no session');
    const { message } = describeError(error);
    const level = performance.now() - this.toldAt > TELL_EVERY_MS ? 'warn' : 'debug';
    if (level === 'warn') this.toldAt = performance.now();
    this.logger[level](
      `The listener lost its connection (${message}): polling until it is back, which it tries by itself`,
    );
  }
}

function ignore(): void {}
