import type { JobEventOf, JobEventOptions, JobEventType } from '../contracts/job-events.js';
import { declaredMethod } from './declared-method.js';
import { addEventListener } from './metadata.js';

/**
 * Calls a method of a provider or controller with each event of a type that happens in this process, from the end
 * of the application's start to its shutdown. Put it on a method several times for several types.
 *
 * ```ts
 * @OnJobEvent('failed', { kind: 'send_email' })
 * async tell({ id, error }: JobEventOf<'failed'>) {
 *   await this.alerts.post(`Job ${id} failed: ${error.message}`);
 * }
 * ```
 *
 * What it throws or rejects with is logged, and goes no further; nothing waits for it. Events are not stored: what
 * must not be missed is a job, or is read from the tables. Guards, interceptors, pipes and filters don't run.
 *
 * @throws PgQueueError `INVALID_HANDLER` on anything but a method of an instance that is named by a string
 */
export function OnJobEvent<Type extends JobEventType>(type: Type, options: JobEventOptions = {}) {
  return <Method extends (event: JobEventOf<Type>) => unknown>(
    target: object,
    method: string | symbol,
    descriptor: TypedPropertyDescriptor<Method>,
  ): void => {
    const decorator = `@OnJobEvent('${String(type)}')`;
    const declared = declaredMethod(decorator, target, method, descriptor);
    addEventListener(target, declared.name, declared.function, { type, options });
  };
}
