import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { report } from './report.js';

/** A service of the application that handlers use and that closes when the application does. */
@Injectable()
export class Journal implements OnApplicationShutdown {
  private open = true;

  use(): void {
    if (!this.open) throw new Error('The journal was closed before the job had ended');
    report({ event: 'journal used' });
  }

  onApplicationShutdown(): void {
    this.open = false;
    report({ event: 'journal closed' });
  }
}
