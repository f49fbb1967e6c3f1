import { Module } from '@nestjs/common';
import { EndpointsModule } from '../endpoints/endpoints.module.js';
import { WebhookDeliveryHandler } from './webhook-delivery.handler.js';
import { WebhooksController } from './webhooks.controller.js';

@Module({
  imports: [EndpointsModule],
  controllers: [WebhooksController],
  providers: [WebhookDeliveryHandler],
})
export class WebhooksModule {}
