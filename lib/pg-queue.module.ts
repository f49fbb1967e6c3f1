import {
  type DynamicModule,
  Inject,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import { PgQueueError } from './contracts/errors.js';
import type { PgQueueOptions } from './contracts/options.js';
import { DEFAULT_INSTANCE, instanceToken } from './contracts/tokens.js';
import { getQueueToken } from './decorators/inject-queue.decorator.js';
import { buildEventListeners } from './discovery/event-listeners.js';
import { HandlerExplorer } from './discovery/handler-explorer.js';
import { HandlerInvoker } from './discovery/handler-invoker.js';
import { buildHandlerTable } from './discovery/handler-registry.js';
import {
  type ASYNC_OPTIONS_TYPE,
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN,
  type OPTIONS_TYPE,
  type PgQueueExtras,
} from './pg-queue.module-definition.js';
import { QueueRuntime } from './pg-queue.module-runtime.js';
import { QueueService } from './queue/queue.service.js';

/** The runtime of the instance that a module belongs to: the same token in each, bound to its own. */
const RUNTIME = 'nestjs-pg-queue:runtime';

/**
 * Holds what is injected everywhere, and opens and closes the database. Global modules come first on the way
 * up and last on the way down, so that enqueue works in every hook of the application.
 */
@Module({})
class PgQueueCoreModule implements OnModuleInit, OnApplicationShutdown {
  constructor(
    @Inject(RUNTIME) private readonly runtime: QueueRuntime,
    private readonly explorer: HandlerExplorer,
    private readonly invoker: HandlerInvoker,
    private readonly modules: ModulesContainer,
  ) {}

  async onModuleInit(): Promise<void> {
    const instance = this.runtime.name;
    const instances = this.instances();
    const handlers = buildHandlerTable(this.explorer.explore(), {
      instance,
      instances,
      defaults: this.runtime.handlerDefaults,
      invoker: this.invoker,
    });
    const listeners = buildEventListeners(this.explorer, instance, instances);
    await this.runtime.prepare(handlers, listeners);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.runtime.close();
  }

  /** The names of all instances of the application. */
  private instances(): Set<string> {
    const names = new Set<string>();
    for (const module of this.modules.values()) {
      if (module.metatype !== PgQueueCoreModule) continue;
      const { name } = module.getProviderByKey<QueueRuntime>(RUNTIME).instance;
      if (names.has(name)) throw duplicateInstance(name);
      names.add(name);
    }
    return names;
  }
}

/**
 * Background jobs on the PostgreSQL that the application already has. Import `PgQueueModule.forRoot(…)` once
 * (once for each `name`); inject `QueueService`; decorate methods with `@JobHandler`.
 */
@Module({})
export class PgQueueModule
  extends ConfigurableModuleClass
  implements OnApplicationBootstrap, OnModuleDestroy
{
  constructor(
    @Inject(RUNTIME) private readonly runtime: QueueRuntime,
    modules: ModulesContainer,
  ) {
    super();
    // Nest calls hooks by distance from the root: the farthest first on the way up, and last on the way
    // down. Nearer than the root itself means that no job begins before every bootstrap hook has ended,
    // and that jobs end before anything they use is destroyed.
    for (const module of modules.values()) {
      if (module.metatype === PgQueueModule) module.distance = -1;
    }
  }

  /** @throws PgQueueError `INVALID_OPTION` while the application starts, naming the option that is wrong */
  static override forRoot(options: typeof OPTIONS_TYPE): DynamicModule {
    return assemble(super.forRoot(options), options);
  }

  /** As {@link forRoot}, with options from `useFactory`, `useClass` or `useExisting`. */
  static override forRootAsync(options: typeof ASYNC_OPTIONS_TYPE): DynamicModule {
    return assemble(super.forRootAsync(options), options);
  }

  onApplicationBootstrap(): void {
    this.runtime.startWorker();
  }

  async onModuleDestroy(): Promise<void> {
    await this.runtime.stopWorker();
  }
}

/** The module that is imported, around the global one that holds the options. */
function assemble(definition: DynamicModule, extras: PgQueueExtras): DynamicModule {
  const name = extras.name ?? DEFAULT_INSTANCE;
  const runtimeToken = instanceToken('runtime', name);
  const services: Provider[] = [
    {
      provide: getQueueToken(name),
      useFactory: (runtime: QueueRuntime) => runtime.service,
      inject: [RUNTIME],
    },
  ];
  if (name === DEFAULT_INSTANCE) {
    services.push({ provide: QueueService, useExisting: getQueueToken() });
  }
  const core: DynamicModule = {
    module: PgQueueCoreModule,
    global: extras.isGlobal ?? true,
    imports: [DiscoveryModule, ...(definition.imports ?? [])],
    providers: [
      ...(definition.providers ?? []),
      ...(extras.extraProviders ?? []),
      HandlerExplorer,
      HandlerInvoker,
      {
        provide: RUNTIME,
        useFactory: (options: PgQueueOptions) => new QueueRuntime(name, options),
        inject: [MODULE_OPTIONS_TOKEN],
      },
      { provide: runtimeToken, useExisting: RUNTIME },
      ...services,
    ],
    exports: [runtimeToken, getQueueToken(name), ...(services.length > 1 ? [QueueService] : [])],
  };
  return {
    module: PgQueueModule,
    imports: [core],
    providers: [{ provide: RUNTIME, useExisting: runtimeToken }],
    exports: [core],
  };
}

function duplicateInstance(name: string): PgQueueError {
  const which = name === DEFAULT_INSTANCE ? 'without a name' : `named '${name}'`;
  return new PgQueueError(
    'DUPLICATE_INSTANCE',
    `PgQueueModule.forRoot was called twice for the instance ${which}. Import it once, in the root module, or give one of them a \`name\`.`,
  );
}
