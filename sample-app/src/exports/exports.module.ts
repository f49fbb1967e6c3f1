import { Module } from '@nestjs/common';
import { UsersModule } from '../users/users.module.js';
import { ExportHandler } from './export.handler.js';
import { ExportsController } from './exports.controller.js';

@Module({
  imports: [UsersModule],
  controllers: [ExportsController],
  providers: [ExportHandler],
})
export class ExportsModule {}
