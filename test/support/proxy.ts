import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';
import { signal } from './signal.js';

/** Both ends of one connection. */
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** Nothing is passed on in either direction, and nobody is told. */
  stalled: boolean;
}

/** Stands between a worker and its server, and does to their connections what networks do. */
export class Proxy {
  /** Connections that were refused so far. */
  refused = 0;
  private readonly pairs = new Set<Pair>();
  private refusing = false;
  private stalling = false;
  private onAnswer: ((pair: Pair, answer: Buffer) => boolean) | undefined;

  private constructor(
    private readonly listener: Server,
    private readonly target: URL,
  ) {}

  static async start(target: string): Promise<Proxy> {
    const listener = createServer();
    const proxy = new Proxy(listener, new URL(target));
    listener.on('connection', (client) => proxy.accept(client));
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The server's address, by way of the proxy. */
  get url(): string {
    const url = new URL(this.target);
    url.hostname = '127.0.0.1';
    url.port = String((this.listener.address() as AddressInfo).port);
    return url.href;
  }

  /** Breaks every connection, and refuses new ones until {@link restore}. */
  cut(): void {
    this.refusing = true;
    for (const pair of this.pairs) this.end(pair);
  }

  /** Passes nothing on any more over the connections that there are; new ones work. */
  stallPresent(): void {
    for (const pair of this.pairs) this.stall(pair);
  }

  /** Passes nothing on any more, over new connections neither. */
  stallAll(): void {
    this.stalling = true;
    this.stallPresent();
  }

  /** New connections work again. */
  restore(): void {
    this.refusing = false;
    this.stalling = false;
  }

  /**
   * Keeps the next answer back that contains the text, and breaks the connection that it was for. The server
   * has committed what it answered, as rows are flushed when the statement has ended. Resolves when done.
   */
  loseAnswerWith(text: string): Promise<void> {
    const lost = signal();
    this.onAnswer = (pair, answer) => {
      if (!answer.includes(text)) return false;
      this.onAnswer = undefined;
      this.end(pair);
      lost.fire();
      return true;
    };
    return lost.happened;
  }

  async close(): Promise<void> {
    for (const pair of this.pairs) this.end(pair);
    await new Promise((resolve) => this.listener.close(resolve));
  }

  private accept(client: Socket): void {
    if (this.refusing) {
      this.refused += 1;
      client.destroy();
      return;
    }
    const server = connect(Number(this.target.port || 5432), this.target.hostname);
    const pair: Pair = { client, server, stalled: this.stalling };
    this.pairs.add(pair);
    client.setNoDelay();
    server.setNoDelay();
    client.on('data', (chunk) => {
      if (!pair.stalled) server.write(chunk);
    });
    server.on('data', (chunk) => {
      if (pair.stalled || this.onAnswer?.(pair, chunk)) return;
      client.write(chunk);
    });
    for (const socket of [client, server]) {
      socket.on('error', () => {});
      socket.on('close', () => {
        if (!pair.stalled) this.end(pair);
        // Whoever gave up a stalled connection is gone, but its other end does not hear of it.
        else if (socket === client) this.pairs.delete(pair);
      });
    }
  }

  private stall(pair: Pair): void {
    pair.stalled = true;
    // The server's end goes on as if its client were only slow; it is put away so that nothing leaks.
    pair.client.once('close', () => pair.server.destroy());
  }

  private end(pair: Pair): void {
    this.pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }
}
