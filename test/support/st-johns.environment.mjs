// @ts-check
import { TestEnvironment } from 'jest-environment-node';

/**
 * Lets a test file live in Newfoundland, half an hour off everybody else's clocks. A test can't move there
 * by itself: Jest gives it a copy of the environment's variables.
 */
export default class StJohnsEnvironment extends TestEnvironment {
  #before = process.env.TZ;

  /** @override */
  async setup() {
    process.env.TZ = 'America/St_Johns';
    await super.setup();
  }

  /** @override */
  async teardown() {
    await super.teardown();
    if (this.#before === undefined) delete process.env.TZ;
    else process.env.TZ = this.#before;
  }
}
