import { readFileSync } from 'node:fs';
import { VERSION } from '../../lib/contracts/version.js';

test('workers tell the version that package.json names', () => {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const { version } = JSON.parse(text) as { version: string };
  expect(VERSION).toBe(version);
});
