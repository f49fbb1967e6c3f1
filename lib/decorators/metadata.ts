import type { DeclaredSchedule, JobHandlerOptions } from '../contracts/handler.js';
import type { JobEventOptions, JobEventType } from '../contracts/job-events.js';

/** Under this key stands what `@JobHandler` said; a fixed string, so that two copies of the package agree. */
const HANDLERS_KEY = 'nestjs-pg-queue:handlers';

/** The same for what `@OnJobEvent` said. */
const EVENT_LISTENERS_KEY = 'nestjs-pg-queue:event-listeners';

/** The same of `@JobSchedule`. */
const SCHEDULES_KEY = 'nestjs-pg-queue:schedules';

/**
 * Nest's own key for the parameters of a handler. Under any other key Nest would not make instances of
 * the pipe classes given to a parameter decorator, and decorators of `createParamDecorator` would not
 * work on job handlers.
 */
export const PARAMETERS_KEY = '__routeArguments__';

/** Nest's number of the parameter type "body": `ValidationPipe` checks these, but not those of other types. */
export const PAYLOAD_PARAMETER = 3;

/** The data of a parameter that is given the job, by which it is known. */
export const CURRENT_JOB = 'nestjs-pg-queue:job';

/** What pipes, guards, interceptors and filters get from `context.getType()` while a job runs. */
export const JOB_CONTEXT_TYPE = 'pg-queue';

/** The place of the job in `context.getArgs()`; the payload comes before it, as in Nest's RPC contexts. */
export const JOB_ARGUMENT = 1;

/** One use of `@JobHandler`. */
export interface HandlerMetadata {
  readonly kind: string;
  readonly options: JobHandlerOptions;
}

/** One use of `@OnJobEvent`. */
export interface EventListenerMetadata {
  readonly type: JobEventType;
  readonly options: JobEventOptions;
}

/** One entry of what parameter decorators write. */
export interface ParameterMetadata {
  readonly index: number;
  readonly pipes?: readonly unknown[];
  readonly data?: unknown;
}

/**
 * Adds a handler to a method. It is kept on the function, where mixins that copy methods take it along,
 * and under the method's name, where it survives a decorator that replaces the function.
 */
export function addHandler(
  prototype: object,
  method: string,
  declared: object,
  handler: HandlerMetadata,
): void {
  add(HANDLERS_KEY, prototype, method, declared, handler);
}

/** What `@JobHandler` said about the method that `prototype` itself (not its parent) declares. */
export function handlersOf(
  prototype: object,
  method: string,
  declared: object,
): readonly HandlerMetadata[] {
  return saidBy<HandlerMetadata>(HANDLERS_KEY, prototype, method, declared);
}

/** As {@link addHandler}, for what `@OnJobEvent` says. */
export function addEventListener(
  prototype: object,
  method: string,
  declared: object,
  listener: EventListenerMetadata,
): void {
  add(EVENT_LISTENERS_KEY, prototype, method, declared, listener);
}

/** As {@link handlersOf}, for what `@OnJobEvent` said. */
export function eventListenersOf(
  prototype: object,
  method: string,
  declared: object,
): readonly EventListenerMetadata[] {
  return saidBy<EventListenerMetadata>(EVENT_LISTENERS_KEY, prototype, method, declared);
}

function add<T>(key: string, prototype: object, method: string, declared: object, entry: T): void {
  const entries = [...saidBy<T>(key, prototype, method, declared), entry];
  Reflect.defineMetadata(key, entries, prototype, method);
  Reflect.defineMetadata(key, entries, declared);
}

function saidBy<T>(key: string, prototype: object, method: string, declared: object): T[] {
  return (
    (Reflect.getOwnMetadata(key, prototype, method) as T[] | undefined) ??
    (Reflect.getOwnMetadata(key, declared) as T[] | undefined) ??
    []
  );
}

/** Adds a schedule to a method, kept as its handlers are. */
export function addSchedule(
  prototype: object,
  method: string,
  declared: object,
  schedule: DeclaredSchedule,
): void {
  const schedules = [...schedulesOf(prototype, method, declared), schedule];
  Reflect.defineMetadata(SCHEDULES_KEY, schedules, prototype, method);
  Reflect.defineMetadata(SCHEDULES_KEY, schedules, declared);
}

/** What `@JobSchedule` said about the method that `prototype` itself (not its parent) declares. */
export function schedulesOf(
  prototype: object,
  method: string,
  declared: object,
): readonly DeclaredSchedule[] {
  return (
    (Reflect.getOwnMetadata(SCHEDULES_KEY, prototype, method) as DeclaredSchedule[] | undefined) ??
    (Reflect.getOwnMetadata(SCHEDULES_KEY, declared) as DeclaredSchedule[] | undefined) ??
    []
  );
}

/** The parameters of a method that the class itself decorated, by Nest's `type:index` keys. */
export function ownParameters(
  classRef: object,
  method: string | symbol,
): Readonly<Record<string, ParameterMetadata>> {
  return (
    (Reflect.getOwnMetadata(PARAMETERS_KEY, classRef, method) as
      Record<string, ParameterMetadata> | undefined) ?? {}
  );
}
