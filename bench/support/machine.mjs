// @ts-check
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { availableParallelism, cpus, platform, release, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { median } from './statistics.mjs';

const WRITES = 50;

/** What the figures depend on. */
export function describeMachine() {
  return {
    cpus: availableParallelism(),
    model: cpus()[0]?.model.trim() ?? 'unknown processor',
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${platform()} ${release()}`,
    fsync: `${syncTime().toFixed(2)} ms`,
  };
}

/** Milliseconds, the median; on the disk that the database will be on. */
function syncTime() {
  const directory = mkdtempSync(join(tmpdir(), 'pgqueue-bench-'));
  const file = openSync(join(directory, 'sync'), 'w');
  try {
    const page = Buffer.alloc(8192, 1);
    const times = Array.from({ length: WRITES }, () => {
      const started = performance.now();
      writeSync(file, page);
      fdatasyncSync(file);
      return performance.now() - started;
    });
    return median(times);
  } finally {
    closeSync(file);
    rmSync(directory, { recursive: true, force: true });
  }
}
