// @ts-check
import { burdens } from './burdens.mjs';
import { drains } from './drain.mjs';
import { enqueues } from './enqueue.mjs';
import { idles } from './idle.mjs';
import { flows } from './latency.mjs';
import { snapshot } from './snapshot.mjs';

/** In the order of a run. @type {readonly import('./test.js').BenchmarkTest<any>[]} */
export const TESTS = [...drains, ...enqueues, ...flows, ...burdens, snapshot, ...idles];
