import type { Lane } from '../store/statements/exchange.js';

/** Scheduled jobs are due that an exchange did not promote: look again, and less often if that goes on. */
const PROMOTION_RETRY_MS = { first: 5, most: 1_000 };
/** Beyond any number of slots, inside PostgreSQL's integers. */
const MAX_CLAIM = 1_000_000;

/** How much to claim at once and when to look again, by what the latest exchanges said. */
export class ClaimPace {
  private limit = Infinity;
  private promotionRetries = 0;
  private averageRoundTrip = 0;

  /** The bound of the next claim over all lanes; undefined = none. `hostBudget` is the host's own. */
  budget(hostBudget: number | undefined): number | undefined {
    const budget = Math.min(this.limit, hostBudget ?? Infinity);
    return Number.isFinite(budget) ? Math.min(budget, MAX_CLAIM) : undefined;
  }

  /** No answer in time: claims whose payloads take longer than that would be tried again for ever, as large. */
  tooSlow(lanes: readonly Lane[]): void {
    if (lanes.length === 0) return;
    const wanted = lanes.reduce((sum, { want }) => sum + want, 0);
    this.limit = Math.max(1, Math.floor(Math.min(wanted, this.limit) / 2));
  }

  /** @param roundTrip how long the exchange took, in milliseconds */
  answered(roundTrip: number): void {
    this.limit *= 2;
    this.averageRoundTrip = (this.averageRoundTrip + roundTrip) / 2;
  }

  /** How long an exchange takes now, in milliseconds. */
  get roundTrip(): number {
    return this.averageRoundTrip;
  }

  /** Everything that was due has been promoted. */
  promoted(): void {
    this.promotionRetries = 0;
  }

  /** More was due than one exchange promotes, or somebody has it locked: how long to wait, in milliseconds. */
  promotionDelay(): number {
    const { first, most } = PROMOTION_RETRY_MS;
    const delay = Math.min(most, first * 2 ** this.promotionRetries);
    this.promotionRetries += 1;
    return delay;
  }
}
