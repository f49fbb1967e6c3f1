import {
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { getJob } from 'nestjs-pg-queue';
import { tap, type Observable } from 'rxjs';

/** Interceptors bound to a handler run around each attempt. Failures are logged by the queue itself. */
@Injectable()
export class LogJobs implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { attempt, maxAttempts, logger } = getJob(context);
    const started = Date.now();
    logger.log(`attempt ${attempt} of ${maxAttempts} started`);
    return next
      .handle()
      .pipe(tap({ complete: () => logger.log(`done in ${Date.now() - started} ms`) }));
  }
}
