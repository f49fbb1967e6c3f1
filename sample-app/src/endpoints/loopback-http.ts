import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import type { AddressInfo } from 'node:net';

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

/** Decides the status of a request; `count` is 1 at the first one. */
export type Answer = (request: ReceivedRequest, count: number) => number | Promise<number>;

/** A real HTTP server on loopback that remembers the JSON it is sent. */
export class LoopbackHttp {
  readonly received: ReceivedRequest[] = [];

  private constructor(
    private readonly server: Server,
    private readonly answer: Answer,
  ) {}

  static async start(answer: Answer): Promise<LoopbackHttp> {
    const server = createServer();
    const loopback = new LoopbackHttp(server, answer);
    server.on('request', (request, response) => void loopback.respond(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return loopback;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Also ends the requests that have not been answered. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  private async respond(message: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const { method = '', url: path = '', headers } = message;
      const request = { method, path, headers, body: await json(message) };
      this.received.push(request);
      response.statusCode = await this.answer(request, this.received.length);
    } catch {
      response.statusCode = 400;
    }
    response.end();
  }
}
