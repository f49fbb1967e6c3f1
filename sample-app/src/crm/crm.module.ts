import { Module } from '@nestjs/common';
import { EndpointsModule } from '../endpoints/endpoints.module.js';
import { UsersModule } from '../users/users.module.js';
import { CrmSyncHandler } from './crm-sync.handler.js';
import { CrmController } from './crm.controller.js';

@Module({
  imports: [EndpointsModule, UsersModule],
  controllers: [CrmController],
  providers: [CrmSyncHandler],
})
export class CrmModule {}
