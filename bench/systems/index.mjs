// @ts-check
// All contestants. Their packages may be missing or may not load on this Node: then they are left out, with
// the reason in the report.

/** @typedef {import('./system.js').System} System */
/** @typedef {{ system: System, file: string }} Contestant */

const FILES = ['pg-queue', 'pg-boss', 'graphile-worker', 'bullmq', 'textbook', 'floor'];

/** @returns {Promise<{ contestants: Contestant[], missing: string[] }>} */
export async function loadContestants() {
  /** @type {Contestant[]} */
  const contestants = [];
  /** @type {string[]} */
  const missing = [];
  for (const file of FILES) {
    try {
      for (const system of await loadSystems(file)) contestants.push({ system, file });
    } catch (error) {
      missing.push(`${file}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { contestants, missing };
}

/**
 * @param {string} file
 * @param {string} name
 */
export async function loadSystem(file, name) {
  const system = (await loadSystems(file)).find((system) => system.name === name);
  if (!system) throw new Error(`bench/systems/${file}.mjs has no system ${name}`);
  return system;
}

/**
 * @param {string} file
 * @returns {Promise<System[]>}
 */
async function loadSystems(file) {
  const module = await import(new URL(`${file}.mjs`, import.meta.url).href);
  return module.default;
}
