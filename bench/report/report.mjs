// @ts-check
// One run as Markdown and as JSON.
import { judge } from './judge.mjs';
import { show, table } from './format.mjs';
import { median } from '../support/statistics.mjs';
import { testTable } from './test-table.mjs';
import { TARGETS } from '../targets.mjs';

/** @typedef {import('../support/runner.mjs').TestResult} TestResult */

/** Percent of the machine that may be taken by others before the report says that it was busy. */
const QUIET = 10;

/**
 * @typedef {object} Run
 * @property {import('../tests/test.js').Mode} mode
 * @property {number} scale
 * @property {Date} startedAt
 * @property {number} seconds
 * @property {ReturnType<typeof import('../support/machine.mjs').describeMachine>} machine
 * @property {{ version: string, settings: string[] }} postgres
 * @property {string} redis version, or why there is none
 * @property {{ name: string, version: string, settings: string }[]} systems
 * @property {string[]} missing
 * @property {TestResult[]} results
 */

/** @param {Run} run */
export function writeReport(run) {
  const verdicts = TARGETS.map((target) => judge(target, run.results));
  const markdown = [
    '# Benchmark',
    '',
    ...header(run),
    ...run.results.flatMap((result) => ['', testTable(result)]),
    '',
    '## Targets',
    '',
    table(
      ['target', 'at least / at most', 'measured', 'verdict'],
      verdicts.map(({ what, bound, measured, verdict }) => [what, bound, measured, verdict]),
      'words',
    ),
    '',
  ].join('\n');
  const all = { ...run, results: run.results.map(plain), verdicts };
  // JSON has no number for what never came.
  const json = JSON.stringify(all, (_, value) => (value === Infinity ? 'never' : value), 2);
  return { markdown, json: `${json}\n` };
}

/** @param {Run} run */
function header({ mode, scale, startedAt, seconds, machine, postgres, redis, ...run }) {
  const taking = new Set(run.results.flatMap(({ systems }) => systems.map(({ system }) => system)));
  const settings = run.systems.filter(({ name }) => taking.has(name));
  return [
    `- ${startedAt.toISOString().slice(0, 16)}Z, ${mode} run${scale === 1 ? '' : ` at scale ${scale}`}, ${Math.round(seconds)} s`,
    `- ${machine.cpus} × ${machine.model}, ${machine.memory}, ${machine.system}, Node ${process.version} for everybody`,
    `- a write of 8 kB and its fsync take ${machine.fsync} here`,
    `- PostgreSQL ${postgres.version}, fsync and synchronous_commit on, ${postgres.settings.join(', ')}, else its defaults`,
    `- Redis: ${redis}`,
    '- rounds interleave the systems; figures are medians (least – most); × is the share of the best in its table',
    '- CPU: percent of one processor; node: producers and workers together; others: percent of the whole machine that',
    '  neither the server nor the benchmark used',
    `- others took ${others(run.results)}`,
    ...run.missing.map((reason) => `- not there: ${reason}`),
    '',
    table(
      ['system', 'version', 'settings'],
      settings.map(({ name, version, settings }) => [name, version, settings]),
      'words',
    ),
  ];
}

/**
 * How far the figures can be trusted.
 * @param {TestResult[]} results
 */
function others(results) {
  const rounds = results.flatMap(({ systems }) => systems.flatMap(({ rounds }) => rounds));
  const shares = rounds.map(({ othersCpu = NaN }) => othersCpu).filter((x) => !Number.isNaN(x));
  if (shares.length === 0) return 'nobody knows how much of the machine';
  const middle = median(shares);
  const figures = `${show(middle, 'percent')} of the machine in the median, ${show(Math.max(...shares), 'percent')} at most`;
  return middle > QUIET ? `${figures}: **it was busy, so take no figure from this run**` : figures;
}

/** Without functions. @param {TestResult} result */
function plain({ test, size, systems, absent }) {
  return { test: test.name, title: test.title, size, systems, absent };
}
