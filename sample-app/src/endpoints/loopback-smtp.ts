import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';
import { parseMail, type ReceivedMail } from './parse-mail.js';

/** A real SMTP server on loopback that remembers the messages it is sent. */
export class LoopbackSmtp {
  readonly received: ReceivedMail[] = [];

  private constructor(private readonly server: SMTPServer) {}

  /** @param onMail the message is accepted when this has ended. */
  static async start(onMail: (mail: ReceivedMail) => void | Promise<void>): Promise<LoopbackSmtp> {
    const server = new SMTPServer({
      disabledCommands: ['AUTH', 'STARTTLS'],
      disableReverseLookup: true,
      closeTimeout: 100,
      onData: (stream, session, accept) => {
        const recipients = session.envelope.rcptTo.map(({ address }) => address);
        text(stream)
          .then((raw) => loopback.accept(parseMail(recipients, raw), onMail))
          .then(() => accept(), accept);
      },
    });
    const loopback = new LoopbackSmtp(server);
    // A client that hangs up is an `error` event; without a listener it would end the process.
    server.on('error', () => {});
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return loopback;
  }

  get url(): string {
    return `smtp://127.0.0.1:${(this.server.server.address() as AddressInfo).port}`;
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.server.close(resolve));
  }

  private async accept(
    mail: ReceivedMail,
    onMail: (mail: ReceivedMail) => void | Promise<void>,
  ): Promise<void> {
    this.received.push(mail);
    await onMail(mail);
  }
}
