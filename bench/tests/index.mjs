// @ts-check
import { drains } from './drain.mjs';

/** In the order of a run. @type {readonly import('./test.js').BenchmarkTest<any>[]} */
export const TESTS = [...drains];
