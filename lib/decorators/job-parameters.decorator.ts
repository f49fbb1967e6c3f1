import {
  createParamDecorator,
  type ExecutionContext,
  type PipeTransform,
  type Type,
} from '@nestjs/common';
import { PgQueueError } from '../contracts/errors.js';
import { getJob, isJobExecution } from './job-execution.js';
import { CURRENT_JOB, ownParameters, PARAMETERS_KEY, PAYLOAD_PARAMETER } from './metadata.js';

/**
 * Gives the payload to this parameter of a job handler. Only needed to bind pipes to the payload alone,
 * or for parameters in another order than `(payload, job)`:
 *
 * ```ts
 * @JobHandler('send_email')
 * async send(@JobPayload(new ValidationPipe({ transform: true })) payload: SendEmailDto, @CurrentJob() job: JobContext) {}
 * ```
 *
 * @param pipes run over the payload after the pipes of the class and the method; instances, or classes
 * that Nest makes.
 */
export function JobPayload(...pipes: (Type<PipeTransform> | PipeTransform)[]): ParameterDecorator {
  return (target, method, index) => {
    if (method === undefined) {
      throw new PgQueueError(
        'INVALID_HANDLER',
        `@JobPayload is on a parameter of the constructor of ${(target as Type).name}. Put it on a parameter of a method that has @JobHandler.`,
      );
    }
    const parameter = { index, data: undefined, pipes };
    Reflect.defineMetadata(
      PARAMETERS_KEY,
      {
        ...ownParameters(target.constructor, method),
        [`${PAYLOAD_PARAMETER}:${index}`]: parameter,
      },
      target.constructor,
      method,
    );
  };
}

/** Gives the `JobContext` to this parameter of a job handler; `undefined` if something else calls the method. */
export function CurrentJob(): ParameterDecorator {
  return currentJob(CURRENT_JOB);
}

const currentJob = createParamDecorator((_data: unknown, context: ExecutionContext) =>
  isJobExecution(context) ? getJob(context) : undefined,
);
