// @ts-check
import { writeFileSync } from 'node:fs';

/**
 * Ends the run with its numbers alone on one line, for programs to read. TEST_SUMMARY_FILE names a file
 * that gets the line too.
 */
export default class PlainReporter {
  /**
   * @param {unknown} _contexts
   * @param {Record<'numPassedTests' | 'numFailedTests' | 'numRuntimeErrorTestSuites' | 'numPendingTests' | 'numTodoTests', number>} results
   */
  onRunComplete(_contexts, results) {
    // A file that could not even be loaded has no tests to count, but must not look like success.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    const skipped = results.numPendingTests + results.numTodoTests;
    const line = `${results.numPassedTests} passed, ${failed} failed`;
    // Jest adds its own summary after all other reporters.
    process.once('exit', () => console.log(skipped > 0 ? `${line}, ${skipped} skipped` : line));
    if (process.env.TEST_SUMMARY_FILE) writeFileSync(process.env.TEST_SUMMARY_FILE, `${line}\n`);
  }
}
