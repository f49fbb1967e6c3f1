import { setImmediate } from 'node:timers/promises';
import type { Logger } from '@nestjs/common';
import type { JobStore } from '../store/job-store.js';
import type { Settlement } from '../store/statements/exchange.js';
import type { ExchangeHost } from './exchange-host.js';
import { Exchanger } from './exchanger.js';
import type { Lease } from './lease.js';
import { Outage } from './outage.js';
import type { Outbox } from './outbox.js';
import { Wakeup } from './wakeup.js';

/** Claims whose answer was lost are looked for after every broken connection, and this often anyway. */
const RECONCILE_EVERY_MS = 5 * 60_000;
const RECONCILE_AGAIN_MS = 5_000;

/**
 * Settles and claims, one exchange after the other: while one is on its way, results pile up, and they go
 * out together with the request for as many jobs as there are free slots. No number of errors ends it.
 */
export class ExchangeLoop {
  private readonly exchanger: Exchanger;
  private readonly wakeup = new Wakeup();
  /** Between two tries in an outage. */
  private readonly pause = new Wakeup();
  private readonly stopping = new AbortController();
  private running: Promise<void> | undefined;
  private readonly onFlushed: (() => void)[] = [];
  private readonly outage: Outage;
  private mustReconcile = false;
  private reconcileAt = performance.now() + RECONCILE_EVERY_MS;

  constructor(
    private readonly store: JobStore,
    private readonly host: ExchangeHost,
    settings: { readonly lease: number },
    private readonly logger: Logger,
  ) {
    this.outage = new Outage(logger);
    const events = {
      again: () => this.wakeup.ring(),
      within: (ms: number) => this.wakeup.within(ms),
      answered: () => this.outage.over(),
      answerLost: () => {
        this.mustReconcile = true;
      },
    };
    this.exchanger = new Exchanger(store, host, events, settings.lease, logger);
  }

  /** What has ended and is not confirmed. */
  get outbox(): Outbox {
    return this.exchanger.outbox;
  }

  start(): void {
    this.running ??= this.run();
    this.ring();
  }

  /** Something may have become due, anywhere: look at the table now. */
  ring(): void {
    this.exchanger.lookFully();
  }

  /**
   * The database has answered someone else: the pause after a failure is over. After an outage longer than
   * the lease this sends the results of the old life before anyone looks for its jobs.
   */
  resume(): void {
    if (this.outage.isOn) this.pause.ring();
    this.ring();
  }

  /** An attempt has ended: its settlement goes out with the next exchange. */
  settle(workerId: string, ...settlements: readonly Settlement[]): void {
    if (settlements.length === 0) return;
    this.outbox.add(workerId, ...settlements);
    this.wakeup.ring();
  }

  /** A job was completed by its own transaction: there is nothing to settle, but a slot is free. */
  completed(id: string): void {
    this.exchanger.completed(id);
    this.wakeup.ring();
  }

  /** Whether the database did not answer the latest exchange. */
  get isFailing(): boolean {
    return this.outage.isOn;
  }

  /** Resolves when everything in the outbox has been answered. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      this.onFlushed.push(resolve);
      this.ring();
    });
  }

  /** Ends after the exchange that is on its way. What is in the outbox then stays there. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.pause.ring();
    this.ring();
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      // What was waited for in vain may be behind a position.
      if (!(await this.wakeup.wait())) this.exchanger.positions.lookFully();
      // What ends in the same turn of the event loop goes into the same exchange.
      await setImmediate();
      if (signal.aborted) return;
      let goesOnAtOnce = false;
      try {
        goesOnAtOnce = await this.turn();
        this.reportFlushed();
      } catch (error) {
        // Rings don't shorten this: a thousand jobs that end in an outage must not be a thousand tries.
        this.host.begin();
        this.pause.within(this.outage.failed(error));
        await this.pause.wait();
        this.ring();
      }
      // Else claimed jobs begin when the next request is on its way, so that neither side waits for the other.
      if (!goesOnAtOnce) this.host.begin();
    }
  }

  /** Answers whether there is more to claim. */
  private async turn(): Promise<boolean> {
    const lease = this.host.currentLease();
    const { refusals, positions, pace } = this.exchanger;
    refusals.bringBack();
    // A life that is over can still settle what nobody has taken from it; those go first.
    for (const workerId of this.outbox.workerIds()) {
      if (workerId !== lease?.workerId) await this.exchanger.exchange(workerId, 0, []);
    }
    if (lease === undefined || !lease.held) return false;
    if (this.mustReconcile || performance.now() >= this.reconcileAt) await this.reconcile(lease);
    const lanes = refusals.areSearching ? [] : this.host.lanes(pace.roundTrip);
    const { workerId, epoch } = lease;
    const turn = await this.exchanger.exchange(workerId, epoch, lanes, lease);
    this.wakeup.within(this.host.exchanged(turn));
    if (!turn.hasSpare) {
      if (turn.found > 0) this.wakeup.ring();
      return turn.found > 0;
    }
    if (turn.found === 0 && !turn.isFull) positions.lookFully();
    const fullLookIn = positions.fullLookIn(performance.now());
    if (fullLookIn !== undefined) this.wakeup.within(fullLookIn);
    // At light load the next look is a full one anyway: none has to be made only to go to rest.
    positions.lookFully();
    return false;
  }

  private reportFlushed(): void {
    if (this.outbox.size === 0) for (const resolve of this.onFlushed.splice(0)) resolve();
  }

  /** Finds claims whose answer was lost, and shuts out an exchange that may still be on its way. */
  private async reconcile(lease: Lease): Promise<void> {
    const known = [...this.host.heldJobs(lease.workerId), ...this.outbox.jobIds(lease.workerId)];
    const { epoch, released, remaining } = await this.store.reconcile(
      lease.workerId,
      known,
      this.exchanger.limit,
    );
    if (epoch === undefined) return lease.lose();
    lease.epoch = epoch;
    this.mustReconcile = false;
    this.reconcileAt =
      performance.now() + (remaining > 0 ? RECONCILE_AGAIN_MS : RECONCILE_EVERY_MS);
    if (released > 0) {
      await this.store.sweepSlots(); // what they held under limits
      this.logger.warn(
        `Handed back ${released} jobs that were claimed by an exchange whose answer was lost`,
      );
    }
  }
}
