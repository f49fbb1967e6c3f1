// @ts-check
/** @type {any[]} */
export const TARGETS = [];
