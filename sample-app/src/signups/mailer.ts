import { Injectable } from '@nestjs/common';
import { createTransport } from 'nodemailer';
import { Endpoints } from '../endpoints/endpoints.js';

export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
}

@Injectable()
export class Mailer {
  constructor(private readonly endpoints: Endpoints) {}

  /**
   * A job may run twice, if its worker dies between the server's answer and the commit. The same
   * Message-ID each time lets the receiving side see that it is the same message.
   */
  async send({ idempotencyKey, ...mail }: Mail): Promise<void> {
    const transport = createTransport(await this.endpoints.smtpUrl());
    await transport.sendMail({
      ...mail,
      from: 'Sample <sample@example.com>',
      messageId: `<${encodeURIComponent(idempotencyKey)}@example.com>`,
    });
  }
}
