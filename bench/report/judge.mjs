// @ts-check
import { OURS } from '../tests/contestants.mjs';
import { medianOf } from '../support/runner.mjs';
import { show } from './format.mjs';

/** @typedef {import('../targets.mjs').Target} Target */
/** @typedef {import('../support/runner.mjs').TestResult} TestResult */
/** @typedef {{ what: string, bound: string, measured: string, verdict: 'met' | 'missed' | 'not measured' }} Verdict */

/**
 * @param {Target} target
 * @param {TestResult[]} results
 * @returns {Verdict}
 */
export function judge(target, results) {
  const { what, system = OURS, metric, unit, ofBest } = target;
  const result = results.find(({ test }) => test.name === target.test);
  const bound = boundOf(target);
  const own = medianOf(result, system, metric);
  if (own === undefined) return { what, bound, measured: '–', verdict: 'not measured' };
  if (!ofBest) return { what, bound, measured: show(own, unit), verdict: verdictOf(target, own) };

  const best = bestOf(target, result);
  if (!best) {
    return {
      what,
      bound,
      measured: `${show(own, unit)}, nobody to compare`,
      verdict: 'not measured',
    };
  }
  const ratio = own / best.value;
  const figures = `${show(own, unit)} / ${show(best.value, unit)} of ${best.system}`;
  return {
    what,
    bound,
    measured: `${show(ratio, 'ratio')} (${figures})`,
    verdict: verdictOf(target, ratio),
  };
}

/**
 * @param {Target} target
 * @param {TestResult | undefined} result
 */
function bestOf({ ofBest = [], metric, atLeast }, result) {
  const measured = ofBest.flatMap((system) => {
    const value = medianOf(result, system, metric);
    return value === undefined ? [] : [{ system, value }];
  });
  measured.sort((a, b) => (atLeast === undefined ? a.value - b.value : b.value - a.value));
  return measured[0];
}

/**
 * @param {Target} target
 * @param {number} value
 */
function verdictOf({ atLeast = -Infinity, atMost = Infinity }, value) {
  return value >= atLeast && value <= atMost ? 'met' : 'missed';
}

/** @param {Target} target */
function boundOf({ atLeast, atMost, unit, ofBest }) {
  const limit = atLeast ?? atMost;
  const sign = atLeast === undefined ? '≤' : '≥';
  if (ofBest)
    return `${sign} ${limit} × ${ofBest.length > 1 ? 'the best of ' : ''}${ofBest.join(', ')}`;
  return `${sign} ${unit === 'yes' ? 'yes' : limit}`;
}
