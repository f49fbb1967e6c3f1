import type { Duration } from './duration.js';

/** How long to wait between attempts. Delays are capped at `max` plus jitter, and at 1 ms at least. */
export type BackoffOptions =
  | {
      /** `base`, then twice as long each time, up to `max`. */
      readonly type: 'exponential';
      /** Delay after the first failed attempt. Default 2 s. */
      readonly base?: Duration | undefined;
      /** Default 10 minutes. */
      readonly max?: Duration | undefined;
      /** Default 2. */
      readonly factor?: number | undefined;
      /** Share of the delay that is drawn at random, 0 to 1; the delay lies within ± half of it. Default 0.5. */
      readonly jitter?: number | undefined;
    }
  | {
      readonly type: 'fixed';
      readonly delay: Duration;
      /** As above. Default 0. */
      readonly jitter?: number | undefined;
    }
  /**
   * Your own: milliseconds or a duration string for the attempt that just failed (1 = the first). A
   * value that is no duration, or a throw, is logged and replaced by the default.
   */
  | ((attempt: number, error: unknown) => Duration);

/** Whether an error is worth another attempt. Called for each failure that carries no verdict of its own. */
export type RetryableRule = (error: unknown) => boolean;
