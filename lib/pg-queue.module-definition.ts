import { ConfigurableModuleBuilder, type Provider } from '@nestjs/common';
import type { PgQueueOptions } from './contracts/options.js';

/** What `forRoot` and `forRootAsync` take beside the options, since it must be known before any factory runs. */
export interface PgQueueExtras {
  /** The name of this queue instance, for `@InjectQueue(name)` and `@JobHandler(…, { instance: name })`. */
  name?: string;
  /** Whether the service can be injected in modules that don't import this one. Default true. */
  isGlobal?: boolean;
  /** Providers that the factory needs and nobody else. */
  extraProviders?: Provider[];
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<PgQueueOptions>({ moduleName: 'PgQueue' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createPgQueueOptions')
    .setExtras<PgQueueExtras>(
      { name: undefined as never, isGlobal: true, extraProviders: [] },
      (definition) => definition,
    )
    .build();
