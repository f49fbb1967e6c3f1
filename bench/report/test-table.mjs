// @ts-check
import { show, table } from './format.mjs';
import { medianOf } from '../support/runner.mjs';

/** @typedef {import('../support/runner.mjs').TestResult} TestResult */
/** @typedef {import('../support/runner.mjs').SystemResult} SystemResult */

/** What every measurement costs. @type {{ metric: string, title: string, unit: import('./format.mjs').Unit }[]} */
const METERS = [
  { metric: 'serverCpu', title: 'server CPU', unit: 'percent' },
  { metric: 'nodeCpu', title: 'node CPU', unit: 'percent' },
  { metric: 'walPerJob', title: 'WAL bytes/job', unit: 'count' },
  { metric: 'othersCpu', title: 'others', unit: 'percent' },
];

/** @param {TestResult} result */
export function testTable(result) {
  const { test, size, systems, absent } = result;
  const median = (/** @type {string} */ system, /** @type {string} */ metric) =>
    medianOf(result, system, metric);
  const { metric: rank, best } = test.ranking;
  const ranked = systems.map(({ system }) => median(system, rank)).filter((x) => x !== undefined);
  const champion = best === 'highest' ? Math.max(...ranked) : Math.min(...ranked);

  const rows = systems.map((found) => {
    const value = median(found.system, rank);
    if (value === undefined) {
      return [
        found.system,
        `failed: ${cell(found.error)}`,
        ...test.columns.map(() => ''),
        ...METERS.map(() => ''),
      ];
    }
    const ratio = best === 'highest' ? value / champion : champion / value;
    return [
      found.error ? `${found.system} (once failed: ${cell(found.error)})` : found.system,
      ...test.columns.map(({ metric, unit }) =>
        metric === rank
          ? `${show(value, unit)} (${spread(found, rank, unit)})`
          : show(median(found.system, metric), unit),
      ),
      show(ratio, 'ratio'),
      ...METERS.map(({ metric, unit }) => show(median(found.system, metric), unit)),
    ];
  });
  const sizes = Object.entries(size)
    .filter(([name]) => name !== 'systems' && name !== 'watchdogMs')
    .map(([name, value]) => `${name} ${Number(value).toLocaleString('en')}`);
  return [
    `## ${test.title} (\`${test.name}\`)`,
    '',
    `${test.about} Sizes: ${sizes.join(', ')}.`,
    '',
    table(
      [
        'system',
        ...test.columns.map(({ title }) => title),
        '×',
        ...METERS.map(({ title }) => title),
      ],
      rows,
      'numbers',
    ),
    ...(absent.length > 0 ? ['', `Not there: ${absent.join(', ')}.`] : []),
  ].join('\n');
}

/**
 * @param {SystemResult} found
 * @param {string} metric
 * @param {import('./format.mjs').Unit} unit
 */
function spread({ rounds }, metric, unit) {
  const values = rounds.map((metrics) => metrics[metric] ?? NaN);
  return `${show(Math.min(...values), unit)} – ${show(Math.max(...values), unit)}`;
}

/** An error in one short line. @param {string | undefined} text */
function cell(text = '') {
  const [line = ''] = text.split('\n');
  return line
    .replace(/^Error: /, '')
    .replaceAll('|', '/')
    .slice(0, 120);
}
