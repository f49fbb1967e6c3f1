import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { say } from './say.js';

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url));
const STOP_PATIENCE_MS = 3_000;

/** A worker in an operating system process of its own. What it prints appears under its name. */
export class WorkerProcess {
  /** Fulfilled once it waits for jobs; rejected if it ends before that. */
  readonly ready: Promise<void>;
  /** What it has said since then. */
  readonly messages: unknown[] = [];
  private readonly child: ChildProcess;
  private stopping = false;

  constructor(
    readonly name: string,
    env: Readonly<Record<string, string>>,
    program = PROGRAM,
  ) {
    // The channel also tells the child when this process dies, so that it never outlives the demo.
    this.child = spawn(process.execPath, ['--enable-source-maps', program], {
      env: { ...process.env, ...env, WORKER_NAME: name },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.tell(this.child.stdout);
    this.tell(this.child.stderr);
    this.ready = this.untilReady();
    // Whoever waits for it hears of it; if the demo was stopped before that, nobody has to.
    this.ready.catch(() => {});
    this.child.once('exit', (code, signal) => {
      if (!this.stopping) say(`[${name}] ended unexpectedly (${signal ?? `exit code ${code}`})`);
    });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Asks it to end, and makes it end if it does not in time. */
  async stop(): Promise<void> {
    this.stopping = true;
    if (!this.alive || this.child.pid === undefined) return;
    // Not `exit`: its last lines may still be on their way then.
    const ended = once(this.child, 'close');
    this.child.kill('SIGTERM');
    const impatience = setTimeout(() => this.child.kill('SIGKILL'), STOP_PATIENCE_MS);
    await ended;
    clearTimeout(impatience);
  }

  private untilReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.child.once('message', () => {
        this.child.on('message', (message) => this.messages.push(message));
        resolve();
      });
      this.child.once('error', reject);
      this.child.once('exit', () => reject(new Error(`${this.name} ended before it was ready`)));
    });
  }

  private tell(output: Readable | null): void {
    if (!output) return;
    createInterface({ input: output }).on('line', (line) => say(`[${this.name}] ${line}`));
  }
}
