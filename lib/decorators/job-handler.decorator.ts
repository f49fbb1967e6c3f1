import type { JobHandlerOptions } from '../contracts/handler.js';
import type { JobKind } from '../contracts/job.js';
import { declaredMethod, type DeclaredMethod } from './declared-method.js';
import { CurrentJob, JobPayload } from './job-parameters.decorator.js';
import { addHandler, ownParameters, PAYLOAD_PARAMETER } from './metadata.js';

/**
 * Makes a method of a provider or controller the handler of a kind of job. Put it on a method several
 * times for several kinds.
 *
 * The method is called with `(payload, job)`. Guards, interceptors, pipes and filters bound to the method
 * or class run. As everywhere in Nest, a pipe bound to the method or class sees every parameter, so the
 * job too (with `metadata.type` `'custom'`, which `ValidationPipe` leaves alone) if the method declares
 * it; bind a pipe that does not look at the type by `@JobPayload(pipe)`.
 *
 * The types of the parameters are not derived from the kind, since pipes may change the payload; write
 * `payload: JobKinds['send_email']`.
 *
 * A subclass that overrides the method without the decorator takes the handler away.
 *
 * @param kind 1 to 255 bytes of text, unique within the instance of the queue.
 * @throws PgQueueError `INVALID_HANDLER` on anything but a method of an instance that is named by a string.
 */
export function JobHandler(kind: JobKind, options: JobHandlerOptions = {}): MethodDecorator {
  return (target, method, descriptor) => {
    const declared = declaredMethod(`@JobHandler('${String(kind)}')`, target, method, descriptor);
    addDefaultParameters(target, declared);
    addHandler(target, declared.name, declared.function, { kind, options });
  };
}

/** Without metadata for a parameter Nest runs no pipes over it, and calls the method without it. */
function addDefaultParameters(target: object, method: DeclaredMethod): void {
  const parameters = ownParameters(target.constructor, method.name);
  const isDecorated = (index: number) => Object.values(parameters).some((p) => p.index === index);
  if (!isDecorated(0)) JobPayload()(target, method.name, 0);
  const payloadIsFirst = `${PAYLOAD_PARAMETER}:0` in ownParameters(target.constructor, method.name);
  // A method of one parameter is not given the job, so that pipes bound to it see the payload only.
  const wantsJob = payloadIsFirst && method.function.length !== 1;
  if (wantsJob && !isDecorated(1)) CurrentJob()(target, method.name, 1);
}
