import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { transformFile, type Options } from '@swc/core';
import type { Command, Report, WorkerAppSettings } from './worker-app/settings.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const COMPILER: Options = {
  swcrc: false,
  sourceMaps: 'inline',
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, verbatimModuleSyntax: true },
  },
  module: { type: 'es6' },
};

let build: Promise<string> | undefined;
const running = new Set<WorkerProcess>();

export interface ProcessOptions {
  /** How far the process's time of day is off. */
  readonly clockShift?: number;
}

/** A real process with a Nest application that runs jobs, and what it told so far. */
export class WorkerProcess {
  readonly reports: Report[] = [];
  /** Resolves when the process has ended and everything it told has been read. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** When it was killed or ended, as in {@link Report}; undefined while it runs. */
  endedAt: number | undefined;
  private stderr = '';
  private listeners: (() => void)[] = [];

  private constructor(
    readonly name: string,
    private readonly child: ChildProcess,
  ) {
    const { stdout, stderr } = child;
    if (stdout === null || stderr === null) throw new TypeError('The process has no pipes');
    createInterface(stdout).on('line', (line) => this.heard(line));
    stderr.setEncoding('utf8').on('data', (chunk: string) => (this.stderr += chunk));
    this.exited = once(child, 'close').then(([code, signal]: unknown[]) => {
      running.delete(this);
      this.endedAt ??= now();
      this.wake();
      return { code: code as number | null, signal: signal as NodeJS.Signals | null };
    });
    running.add(this);
  }

  /** Resolves when the application is up. */
  static async start(
    settings: WorkerAppSettings,
    { clockShift }: ProcessOptions = {},
  ): Promise<WorkerProcess> {
    build ??= buildApp();
    const app = join(await build, 'worker-app');
    const preload = clockShift === undefined ? [] : ['--import', join(app, 'shift-clock.js')];
    const child = spawn(
      process.execPath,
      ['--enable-source-maps', ...preload, join(app, 'main.js')],
      {
        env: {
          ...process.env,
          NODE_OPTIONS: '',
          WORKER_APP: JSON.stringify(settings),
          CLOCK_SHIFT_MS: String(clockShift ?? 0),
        },
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      },
    );
    const worker = new WorkerProcess(settings.name, child);
    await worker.heardOf('ready');
    return worker;
  }

  get isRunning(): boolean {
    return running.has(this);
  }

  /** What it told of that event so far. */
  all<E extends Report['event']>(event: E): Extract<Report, { event: E }>[] {
    return this.reports.filter((report) => report.event === event) as never;
  }

  /**
   * Resolves with the first report of the event that matches, now or later.
   * @throws if the process ends before
   */
  async heardOf<E extends Report['event']>(
    event: E,
    matches: (report: Extract<Report, { event: E }>) => boolean = () => true,
  ): Promise<Extract<Report, { event: E }>> {
    for (;;) {
      const report = this.all(event).find(matches);
      if (report) return report;
      if (!this.isRunning) {
        const log = this.all('log').map(({ text }) => text);
        throw new Error(
          `${this.name} ended without '${event}':\n${[...log, this.stderr].join('\n')}`,
        );
      }
      await new Promise<void>((resolve) => this.listeners.push(resolve));
    }
  }

  send(command: Command): void {
    this.child.send(command);
  }

  /** Sends the signal; SIGKILL is waited for. */
  async kill(signal: NodeJS.Signals): Promise<void> {
    if (!this.isRunning) return;
    this.child.kill(signal);
    if (signal !== 'SIGKILL') return;
    this.endedAt ??= now();
    await this.exited;
  }

  private heard(line: string): void {
    this.reports.push(JSON.parse(line) as Report);
    this.wake();
  }

  private wake(): void {
    for (const listener of this.listeners.splice(0)) listener();
  }
}

/** For `afterEach`: no process outlives its test. */
export async function endProcesses(): Promise<void> {
  await Promise.all([...running].map((worker) => worker.kill('SIGKILL')));
}

/** For `afterAll`: removes what was compiled for the processes. */
export async function removeBuild(): Promise<void> {
  await endProcesses();
  if (build) await rm(await build, { recursive: true, force: true });
  build = undefined;
}

/** The time as reports have it. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

/**
 * The library and the application as JavaScript, in a folder of their own: there need not be a build, and
 * the one that there is may be of yesterday. The application finds the package by its name.
 */
async function buildApp(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pgqueue-worker-app-'));
  const manifest = { name: 'nestjs-pg-queue', type: 'module', exports: './lib/index.js' };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  await Promise.all([
    compile(join(ROOT, 'lib'), join(folder, 'lib')),
    compile(join(ROOT, 'test/support/worker-app'), join(folder, 'worker-app')),
  ]);
  return folder;
}

async function compile(from: string, to: string): Promise<void> {
  const files = (await readdir(from, { recursive: true })).filter((file) => file.endsWith('.ts'));
  await Promise.all(
    files.map(async (file) => {
      const { code } = await transformFile(join(from, file), COMPILER);
      const target = join(to, file.replace(/\.ts$/, '.js'));
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, code);
    }),
  );
}
