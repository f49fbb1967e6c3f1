// The smallest application that works jobs: packed.mjs compiles it against the packed package, as
// CommonJS for Nest 11 and as an ECMAScript module for Nest 12. It says how it went on its last line.
import 'reflect-metadata';
import { deepStrictEqual } from 'node:assert';
import { setTimeout } from 'node:timers/promises';
import {
  Inject,
  Injectable,
  Module,
  Scope,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { NestFactory, REQUEST } from '@nestjs/core';
import {
  JobHandler,
  PgQueueModule,
  QueueService,
  type JobContext,
  type JobKinds,
} from 'nestjs-pg-queue';

interface Greeting {
  readonly to: string;
  readonly words: readonly string[];
}

// The names that the package re-exports can be added to from outside.
declare module 'nestjs-pg-queue' {
  interface JobKinds {
    'compat.static': Greeting;
  }
}

type Ran = { handler: string; payload: Greeting; jobId: string };

/** Where the application stands in its life: jobs run in the middle of it only. */
let stage: 'starting' | 'ready' | 'destroyed' = 'starting';
const stagesSeen: string[] = [];

/** Resolves with what every expected handler was given. */
@Injectable()
class Witness {
  private readonly ran: Ran[] = [];
  private finish: (ran: Ran[]) => void = () => {};
  readonly all = new Promise<Ran[]>((resolve) => (this.finish = resolve));

  saw(ran: Ran): void {
    this.ran.push(ran);
    if (this.ran.length === 2) this.finish(this.ran);
  }
}

@Injectable()
class StaticGreeter {
  constructor(private readonly witness: Witness) {}

  @JobHandler('compat.static')
  greet(payload: JobKinds['compat.static'], job: JobContext<'compat.static'>): void {
    const { words } = job.payload;
    this.witness.saw({ handler: 'static', payload: { ...payload, words }, jobId: job.id });
  }
}

/** Made anew for each job, which is its request. */
@Injectable({ scope: Scope.REQUEST })
class ScopedGreeter {
  constructor(
    @Inject(Witness) private readonly witness: Witness,
    @Inject(REQUEST) private readonly request: JobContext,
  ) {}

  @JobHandler('compat.scoped')
  async greet(payload: Greeting, job: JobContext): Promise<void> {
    deepStrictEqual(this.request.id, job.id);
    this.witness.saw({ handler: 'scoped', payload, jobId: job.id });
  }
}

/** Jobs that are due before the application is ready, and that end after its close began. */
@Injectable()
class Boundaries implements OnModuleInit {
  private begun: () => void = () => {};
  readonly lastJobBegun = new Promise<void>((resolve) => (this.begun = resolve));

  constructor(private readonly queue: QueueService) {}

  async onModuleInit(): Promise<void> {
    await this.queue.enqueue('compat.early');
  }

  @JobHandler('compat.early')
  early(): void {
    stagesSeen.push(stage);
  }

  @JobHandler('compat.last')
  async last(): Promise<void> {
    this.begun();
    await setTimeout(300);
    stagesSeen.push(stage);
  }
}

const connectionString = process.env.DATABASE_URL ?? '';

@Module({
  imports: [PgQueueModule.forRoot({ connectionString, schema: process.env.COMPAT_SCHEMA ?? '' })],
  providers: [Witness, StaticGreeter, ScopedGreeter, Boundaries],
})
class AppModule implements OnApplicationBootstrap, OnModuleDestroy {
  async onApplicationBootstrap(): Promise<void> {
    await setTimeout(300);
    stage = 'ready';
  }

  onModuleDestroy(): void {
    stage = 'destroyed';
  }
}

/** Compiled and never called. */
export function refused(queue: QueueService): Promise<unknown> {
  // @ts-expect-error -- a greeting goes to somebody
  return queue.enqueue('compat.static', { words: [] });
}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, { abortOnError: false });
  const queue = app.get(QueueService);
  const payload: Greeting = { to: 'Ada', words: ['good', 'mörning ☕'] };
  const first = await queue.enqueue('compat.static', payload);
  const second = await queue.enqueue('compat.scoped', payload);

  const ran = await app.get(Witness).all;
  deepStrictEqual(
    ran.toSorted((a, b) => b.handler.localeCompare(a.handler)),
    [
      { handler: 'static', payload, jobId: first.id },
      { handler: 'scoped', payload, jobId: second.id },
    ],
  );
  await queue.enqueue('compat.last');
  await app.get(Boundaries).lastJobBegun;
  await app.close();
  deepStrictEqual(stagesSeen, ['ready', 'ready']);
  console.log('every handler ran, while the application was ready');
}

// Not awaited at the top level, which CommonJS has not.
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
