/** A line of the demo's story. */
export function say(line = ''): void {
  process.stdout.write(`${line}\n`);
}
