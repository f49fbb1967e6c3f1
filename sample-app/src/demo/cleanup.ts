import { say } from './say.js';
import { orAborted } from './until.js';

const STEP_LIMIT_MS = 5_000;

/** What has to be undone, whatever goes wrong: each step is tried, the latest first. */
export class Cleanup {
  private readonly steps: (() => Promise<unknown>)[] = [];

  add(step: () => Promise<unknown>): void {
    this.steps.push(step);
  }

  async run(): Promise<void> {
    for (const step of this.steps.splice(0).toReversed()) {
      try {
        await orAborted(step(), AbortSignal.timeout(STEP_LIMIT_MS));
      } catch (error) {
        say(`While cleaning up: ${String(error)}`);
      }
    }
  }
}
