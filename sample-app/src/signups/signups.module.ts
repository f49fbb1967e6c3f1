import { Module } from '@nestjs/common';
import { EndpointsModule } from '../endpoints/endpoints.module.js';
import { UsersModule } from '../users/users.module.js';
import { Mailer } from './mailer.js';
import { SignupsController } from './signups.controller.js';
import { WelcomeEmailHandler } from './welcome-email.handler.js';

@Module({
  imports: [EndpointsModule, UsersModule],
  controllers: [SignupsController],
  providers: [Mailer, WelcomeEmailHandler],
})
export class SignupsModule {}
