import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { reconnectDelay } from '../contracts/delay.js';
import { startTimer } from '../contracts/timer.js';
import { within } from '../contracts/within.js';
import type { Database } from './database.js';
import { quoteIdentifier } from './sql.js';
import { TEXT_TYPES, type Statement, type TextRow } from './statement.js';
import { channels } from './statements/workers.js';

/** A connection whose other end went away without a word is noticed within this time. */
const PROBE_EVERY_MS = 15_000;
const PROBE_LIMIT_MS = 5_000;
const END_LIMIT_MS = 1_000;

/** What a listener tells. A notification is a hint: whoever hears it looks at the table. */
export interface ListenerEvents {
  /** Jobs may have become due in the queue; the empty name: settings of queues or kinds have changed. */
  ring(queue: string): void;
  /** Somebody asked for the end of a job that runs: `id:lease_no`. */
  cancel(attempt: string): void;
  /** Listening, for the first time or again: notifications may have been missed before, so look once. */
  up(isBack: boolean): void;
  /** Not listening; it tries again by itself. Called once an outage. */
  down(error: unknown): void;
}

/** One session that LISTENs on the schema's doorbell: probed, and reconnected for ever. */
export class Listener {
  private readonly stopped = new AbortController();
  private running: Promise<void> | undefined;
  private wake: () => void = () => {};
  private client: Client | undefined;

  constructor(
    private readonly database: Database,
    private readonly events: ListenerEvents,
  ) {}

  start(): void {
    this.running ??= this.run();
  }

  /**
   * Runs a statement on the session that listens: what it locks is held until the session ends.
   * @throws if there is no session at the moment, or it does not answer
   */
  async ask<Params, Row>(statement: Statement<Params, Row>, params: Params): Promise<Row> {
    if (this.client === undefined) throw new Error('The listener has no connection');
    const { rows } = await within(
      PROBE_LIMIT_MS,
      this.client.query<Record<string, string | null>>({
        text: this.database.render(statement.text),
        values: statement.values(params),
        types: TEXT_TYPES,
      }),
      noAnswer,
    );
    return statement.row(rows[0] ?? {});
  }

  /** Ends the session. May be called more than once, and before `start`. */
  async stop(): Promise<void> {
    this.stopped.abort();
    this.wake();
    await this.running;
  }

  private async run(): Promise<void> {
    for (let failures = 0; !this.stopped.signal.aborted;) {
      const client = this.database.directClient();
      try {
        await this.listen(client);
        this.client = client;
        this.events.up(failures > 0);
        failures = 0;
        await this.untilBroken(client);
      } catch (error) {
        if (!this.stopped.signal.aborted) {
          if (failures === 0) this.events.down(error);
          failures += 1;
        }
      }
      this.client = undefined;
      client.removeAllListeners('notification');
      // Not awaited without a limit: the end of a half-open connection may never be answered.
      await within(END_LIMIT_MS, client.end(), () => new Error('No answer')).catch(ignore);
      if (failures > 0) await this.pause(reconnectDelay(failures));
    }
  }

  private async listen(client: Client): Promise<void> {
    await client.connect();
    const { rows } = await client.query<TextRow>(this.database.render(channels.text));
    const { doorbell, cancels } = channels.row(rows[0] ?? {});
    client.on('notification', ({ channel, payload = '' }) => {
      if (channel === cancels) this.events.cancel(payload);
      else this.events.ring(payload);
    });
    await client.query(`listen ${quoteIdentifier(cancels)}`);
    await client.query(`listen ${quoteIdentifier(doorbell)}`);
  }

  private async untilBroken(client: Client): Promise<void> {
    let hasEnded = false;
    client.once('end', () => {
      hasEnded = true;
      this.wake();
    });
    while (!this.stopped.signal.aborted) {
      await this.untilProbe();
      if (this.stopped.signal.aborted) return;
      if (hasEnded) throw new Error('The connection of the listener ended');
      await within(PROBE_LIMIT_MS, client.query('select 1'), noAnswer);
    }
  }

  /** Until the next probe is due, the connection ends, or the listener is stopped. */
  private async untilProbe(): Promise<void> {
    await new Promise<void>((resolve) => {
      const stopTimer = startTimer(PROBE_EVERY_MS, resolve);
      this.wake = () => {
        stopTimer();
        resolve();
      };
    });
  }

  private async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.stopped.signal, ref: false }).catch(ignore);
  }
}

function noAnswer(): Error {
  return new Error(`The server did not answer the listener within ${PROBE_LIMIT_MS} ms`);
}

function ignore(): void {}
