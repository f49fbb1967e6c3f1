import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { AppConfig } from '../config/app-config.js';
import { LoopbackHttp } from './loopback-http.js';
import { LoopbackSmtp } from './loopback-smtp.js';

/**
 * Where the handlers send things. For an address that is not configured a stand-in starts on loopback
 * at first use, so that the application works out of the box; a web process never starts one.
 */
@Injectable()
export class Endpoints implements OnApplicationShutdown {
  private readonly logger = new Logger('Endpoints');
  private smtp: Promise<LoopbackSmtp> | undefined;
  private webhooks: Promise<LoopbackHttp> | undefined;
  private crm: Promise<LoopbackHttp> | undefined;

  constructor(private readonly config: AppConfig) {}

  async smtpUrl(): Promise<string> {
    if (this.config.smtpUrl) return this.config.smtpUrl;
    this.smtp ??= LoopbackSmtp.start(() =>
      this.logger.log('The SMTP stand-in (no SMTP_URL) got an e-mail'),
    );
    return (await this.smtp).url;
  }

  async webhookUrl(): Promise<string> {
    if (this.config.webhookUrl) return this.config.webhookUrl;
    this.webhooks ??= this.httpStandIn('webhook', 'WEBHOOK_URL');
    return (await this.webhooks).url;
  }

  async crmUrl(): Promise<string> {
    if (this.config.crmUrl) return this.config.crmUrl;
    this.crm ??= this.httpStandIn('CRM', 'CRM_URL');
    return (await this.crm).url;
  }

  async onApplicationShutdown(): Promise<void> {
    await (await this.smtp)?.close();
    await (await this.webhooks)?.close();
    await (await this.crm)?.close();
  }

  private httpStandIn(what: string, variable: string): Promise<LoopbackHttp> {
    return LoopbackHttp.start(({ method, path }) => {
      this.logger.log(`The ${what} stand-in (no ${variable}) got ${method} ${path}`);
      return 200;
    });
  }
}
