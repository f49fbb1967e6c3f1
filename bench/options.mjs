// @ts-check
import { parseArgs } from 'node:util';

export const USAGE = `npm run bench [-- options]
  --quick            under five minutes: smaller sizes, fewer rounds, the systems that the targets need
  --tests a,b        these tests only
  --systems a,b      these systems only
  --rounds n         so many rounds of each test
  --scale x          every number of jobs times x
  --out directory    where results.md and results.json go. Default: bench/results
  --list             the names of all tests and systems`;

/**
 * @typedef {object} Options
 * @property {import('./tests/test.js').Mode} mode
 * @property {string[] | undefined} tests
 * @property {string[] | undefined} systems
 * @property {number | undefined} rounds
 * @property {number} scale
 * @property {string} out
 * @property {boolean} list
 */

/**
 * @param {string[]} args
 * @returns {Options}
 */
export function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: 'boolean', default: false },
      tests: { type: 'string' },
      systems: { type: 'string' },
      rounds: { type: 'string' },
      scale: { type: 'string', default: '1' },
      out: { type: 'string', default: new URL('results', import.meta.url).pathname },
      list: { type: 'boolean', default: false },
    },
  });
  return {
    mode: values.quick ? 'quick' : 'full',
    tests: names(values.tests),
    systems: names(values.systems),
    rounds: values.rounds === undefined ? undefined : positive('rounds', values.rounds),
    scale: positive('scale', values.scale),
    out: values.out,
    list: values.list,
  };
}

/** @param {string | undefined} list */
function names(list) {
  return list?.split(',').map((name) => name.trim());
}

/**
 * @param {string} option
 * @param {string} text
 */
function positive(option, text) {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`--${option} must be a number above 0, not ${text}`);
  return value;
}
