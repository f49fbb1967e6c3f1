import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Everything that the application reads from its environment, with the defaults. */
export class AppConfig {
  private constructor(
    readonly databaseUrl: string,
    readonly port: number,
    /** `WORKER=off`: this process enqueues jobs and leaves the work to others. */
    readonly worker: boolean,
    readonly workerName: string | undefined,
    /** How many jobs of one queue this process runs at once. */
    readonly concurrency: number,
    /** The PostgreSQL schema that holds the jobs. */
    readonly queueSchema: string,
    readonly exportDir: string,
    /** The three services outside; undefined = use a stand-in on loopback. */
    readonly smtpUrl: string | undefined,
    readonly webhookUrl: string | undefined,
    readonly crmUrl: string | undefined,
  ) {}

  /** @throws Error naming the variable that is missing or wrong, and what it may be. */
  static fromEnv(env: NodeJS.ProcessEnv): AppConfig {
    return new AppConfig(
      required(env, 'DATABASE_URL', 'postgres://user:password@host:5432/database'),
      wholeNumber(env, 'PORT', 3000, 0),
      onOrOff(env, 'WORKER', true),
      env['WORKER_NAME'],
      wholeNumber(env, 'QUEUE_CONCURRENCY', 10, 1),
      env['QUEUE_SCHEMA'] || 'pgqueue',
      env['EXPORT_DIR'] || join(tmpdir(), 'nestjs-pg-queue-sample'),
      env['SMTP_URL'] || undefined,
      env['WEBHOOK_URL'] || undefined,
      env['CRM_URL'] || undefined,
    );
  }
}

function required(env: NodeJS.ProcessEnv, name: string, example: string): string {
  const value = env[name];
  if (value) return value;
  throw new Error(`${name} is not set. Set it to something like ${example}.`);
}

function wholeNumber(env: NodeJS.ProcessEnv, name: string, otherwise: number, least: number) {
  const text = env[name];
  if (!text) return otherwise;
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`${name} is '${text}', but it must be a whole number of at least ${least}.`);
}

function onOrOff(env: NodeJS.ProcessEnv, name: string, otherwise: boolean): boolean {
  const text = env[name];
  if (!text) return otherwise;
  if (text === 'on' || text === 'off') return text === 'on';
  throw new Error(`${name} is '${text}', but it must be 'on' or 'off'.`);
}
