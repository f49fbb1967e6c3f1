// @ts-check
/** @param {any} _target @param {any} _results @returns {any} */
export function judge(_target, _results) {}
