import { Global, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Pool } from 'pg';
import { AppConfig } from '../config/app-config.js';

/** The application's own connection pool. The queue shares it, see app.module.ts. */
@Global()
@Module({
  providers: [
    {
      provide: Pool,
      inject: [AppConfig],
      useFactory: (config: AppConfig) =>
        new Pool({ connectionString: config.databaseUrl, connectionTimeoutMillis: 10_000 }),
    },
  ],
  exports: [Pool],
})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly pool: Pool) {}

  /** The last of Nest's shutdown phases: handlers that were still running have ended by now. */
  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}
