import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { User } from '../users/users.repository.js';
import { WEBHOOK, type JobRow } from './jobs.js';
import type { Outside } from './outside.js';
import { say } from './say.js';
import type { WorkerProcess } from './worker-process.js';

/** What is left to look at when the jobs are settled. */
export interface Aftermath {
  readonly jobs: readonly JobRow[];
  readonly users: readonly User[];
  readonly outside: Outside;
  readonly workers: readonly WorkerProcess[];
}

/** Prints a line per check; true if all of them hold. */
export async function checkAll(aftermath: Aftermath): Promise<boolean> {
  const results = [
    ...checkJobs(aftermath),
    checkMail(aftermath),
    checkWebhook(aftermath),
    await checkExport(aftermath),
    checkCrm(aftermath),
    ...checkWorkers(aftermath),
  ];
  for (const [what, holds] of results) say(`${holds ? 'ok    ' : 'FAILED'}  ${what}`);
  return results.every(([, holds]) => holds);
}

type Check = readonly [what: string, holds: boolean];

function checkJobs({ jobs }: Aftermath): Check[] {
  const attempts = Object.fromEntries(jobs.map((job) => [job.kind, job.attempts]));
  const expected = { 'send-email': 1, 'deliver-webhook': 1, 'generate-export': 1, 'sync-crm': 2 };
  return [
    ['four jobs are done', jobs.length === 4 && jobs.every(({ status }) => status === 'done')],
    ['sync-crm took 2 attempts, the others 1', isDeepStrictEqual(attempts, expected)],
  ];
}

function checkMail({ outside: { smtp }, users: [user] }: Aftermath): Check {
  const [mail] = smtp.received;
  const holds =
    smtp.received.length === 1 &&
    isDeepStrictEqual(mail?.recipients, [user?.email]) &&
    mail?.headers.get('to') === user?.email &&
    mail?.headers.get('subject') === `Welcome, ${user?.name}` &&
    mail.text === `Hello ${user?.name},\n\nyour account is ready.\n`;
  return ['one e-mail was received: right recipient, subject and text', holds];
}

function checkWebhook({ jobs, outside: { webhooks } }: Aftermath): Check {
  const job = jobs.find(({ kind }) => kind === 'deliver-webhook');
  const [request] = webhooks.received;
  const holds =
    webhooks.received.length === 1 &&
    request?.method === 'POST' &&
    isDeepStrictEqual(request.body, WEBHOOK) &&
    String(request.headers['idempotency-key']).startsWith(`job-${job?.id}-`);
  return ['the webhook was received once: right JSON and idempotency key', holds];
}

async function checkExport({ outside: { exportDir }, users }: Aftermath): Promise<Check> {
  const files = await readdir(exportDir);
  const text = files.length === 1 ? await readText(join(exportDir, String(files[0]))) : '';
  const rows = users.map(({ id, email, name }) => `${id},${email},${quoteComma(name)}\n`);
  const holds = text === ['id,email,name\n', ...rows].join('');
  return [`one CSV file was written: its header and ${users.length} rows are right`, holds];
}

/** Empty if it has just gone, as a file that is still being written can. */
function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}

function quoteComma(text: string): string {
  return text.includes(',') ? `"${text}"` : text;
}

function checkCrm({ outside: { crm }, users: [user] }: Aftermath): Check {
  const [, request] = crm.received;
  const holds =
    crm.received.length === 2 &&
    request?.method === 'PUT' &&
    request.path === `/contacts/${user?.id}` &&
    isDeepStrictEqual(request.body, { email: user?.email, name: user?.name });
  return ['the CRM left its first request unanswered and got the contact with the second', holds];
}

function checkWorkers({ workers, outside: { meeting } }: Aftermath): Check[] {
  return [
    [
      'both workers took part: the e-mail and the webhook were under way at the same time',
      meeting.complete,
    ],
    ['both workers are still alive', workers.length === 2 && workers.every(({ alive }) => alive)],
  ];
}
