import { Inject } from '@nestjs/common';
import { instanceToken } from '../contracts/tokens.js';

/**
 * The injection token of the `QueueService` of an instance.
 * @param name as given to `forRoot`; none for the instance without a name, which the class
 * `QueueService` injects as well.
 */
export function getQueueToken(name?: string): string {
  return instanceToken('QueueService', name);
}

/** Injects the `QueueService` of a named instance, or of the one without a name. */
export function InjectQueue(name?: string): ParameterDecorator & PropertyDecorator {
  return Inject(getQueueToken(name));
}
