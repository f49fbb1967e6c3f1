import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LoopbackHttp } from '../endpoints/loopback-http.js';
import { LoopbackSmtp } from '../endpoints/loopback-smtp.js';
import type { Cleanup } from './cleanup.js';
import { Meeting } from './meeting.js';

/** The services that the jobs talk to: real servers, in this process, on loopback. */
export interface Outside {
  readonly smtp: LoopbackSmtp;
  readonly webhooks: LoopbackHttp;
  readonly crm: LoopbackHttp;
  readonly exportDir: string;
  /** Complete when the mail server and the webhook receiver were busy at the same time. */
  readonly meeting: Meeting;
}

const PATIENCE_MS = 3_000;

export async function startOutside(cleanup: Cleanup): Promise<Outside> {
  const exportDir = await mkdtemp(join(tmpdir(), 'nestjs-pg-queue-demo-'));
  cleanup.add(() => rm(exportDir, { recursive: true, force: true }));
  const meeting = new Meeting(2);

  const smtp = await LoopbackSmtp.start(() => meeting.join(PATIENCE_MS));
  cleanup.add(() => smtp.close());

  const webhooks = await LoopbackHttp.start(async () => {
    await meeting.join(PATIENCE_MS);
    return 200;
  });
  cleanup.add(() => webhooks.close());

  const crm = await LoopbackHttp.start((_, count) => (count === 1 ? neverAnswer() : 200));
  cleanup.add(() => crm.close());

  return { smtp, webhooks, crm, exportDir, meeting };
}

function neverAnswer(): Promise<never> {
  return new Promise(() => {});
}
