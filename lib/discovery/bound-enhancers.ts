import type { ApplicationConfig } from '@nestjs/core';
import { PgQueueError } from '../contracts/errors.js';
import {
  CURRENT_JOB,
  PARAMETERS_KEY,
  PAYLOAD_PARAMETER,
  type ParameterMetadata,
} from '../decorators/metadata.js';
import { isPerJob, type FoundHandler } from './handler-explorer.js';

/** Nest's own metadata keys, the same since its version 5; neither major exports them at the root. */
const KEYS = {
  guard: '__guards__',
  interceptor: '__interceptors__',
  pipe: '__pipes__',
  filter: '__exceptionFilters__',
} as const;

type Role = keyof typeof KEYS;

/** Whether an exception filter is bound to the method or its class. */
export function hasFilter(found: FoundHandler): boolean {
  return boundTo(found, 'filter').length > 0;
}

/** What a parameter of a handler is given. */
export type Argument = 'payload' | 'job' | 'nothing';

/**
 * What to call a method with to which nothing is bound. Undefined: Nest has something to do between the queue
 * and the method, enhancers or parameters of other decorators.
 */
export function plainArguments(found: FoundHandler): Argument[] | undefined {
  const { options, classRef, method } = found;
  const isBound = (Object.keys(KEYS) as Role[]).some((role) => boundTo(found, role).length > 0);
  if (isBound || options.globalEnhancers) return undefined;
  const parameters = metadata<Record<string, ParameterMetadata>>(PARAMETERS_KEY, classRef, method);
  if (parameters === undefined) return ['payload', 'job']; // a mixin that copies methods leaves them behind
  const plain: (Argument | undefined)[] = [];
  for (const [key, { index, data }] of Object.entries(parameters)) {
    if (key === `${PAYLOAD_PARAMETER}:${index}`) plain[index] = 'payload';
    else if (data === CURRENT_JOB) plain[index] = 'job';
    else return undefined;
  }
  return Array.from(plain, (argument = 'nothing') => argument);
}

/**
 * Nest leaves out, without a word, a guard (or interceptor, pipe, filter) that is bound as a class but
 * that it made no instance of. A job must not run without its guard, so that is an error at start.
 * @throws PgQueueError `INVALID_HANDLER`
 */
export function refuseEnhancersThatCannotRun(
  found: FoundHandler,
  global?: ApplicationConfig,
): void {
  for (const role of Object.keys(KEYS) as Role[]) {
    for (const enhancer of boundTo(found, role)) {
      if (typeof enhancer === 'function') refuseIfNotMade(found, role, enhancer);
    }
  }
  if (found.options.globalEnhancers && global) refuseGlobalsOfRequestScope(found, global);
}

function refuseIfNotMade(found: FoundHandler, role: Role, enhancer: EnhancerClass): void {
  const made = found.wrapper.host?.injectables.get(enhancer as never);
  if (!made) {
    throw cannotRun(
      found,
      `is bound to the ${role} ${enhancer.name}, which Nest does not make here: it does so for hosts that are provided as a class, not for those of useFactory and useValue. It would silently not run`,
      `Provide the class ${found.classRef.name} itself, or bind an instance of ${enhancer.name}.`,
    );
  }
  // For a host of request scope Nest makes one per job; here it has a bare object of the class.
  if (made.isTransient && !isPerJob(found.wrapper)) {
    throw cannotRun(
      found,
      `is bound to the ${role} ${enhancer.name}, which is transient. Nest would run it without having called its constructor, since the host is made once`,
      `Give ${enhancer.name} the default or the request scope.`,
    );
  }
}

function refuseGlobalsOfRequestScope(found: FoundHandler, global: ApplicationConfig): void {
  const ofRequestScope = [
    ...global.getGlobalRequestGuards(),
    ...global.getGlobalRequestInterceptors(),
    ...global.getGlobalRequestPipes(),
    ...global.getGlobalRequestFilters(),
  ];
  const [first] = ofRequestScope;
  const isController = found.wrapper.host?.controllers.get(found.wrapper.token) === found.wrapper;
  if (!first || isController) return;
  throw cannotRun(
    found,
    `asks for globalEnhancers, but ${String(first.metatype?.name ?? first.name)} is global and request-scoped; Nest makes those for controllers only. It would silently not run`,
    'Move the handler to a controller, bind what it needs to the method, or give the global one the default scope.',
  );
}

function cannotRun(found: FoundHandler, what: string, advice: string): PgQueueError {
  const origin = `${found.classRef.name}.${found.method}`;
  return new PgQueueError(
    'INVALID_HANDLER',
    `The job handler ${origin} in ${found.moduleName} ${what}. ${advice}`,
  );
}

interface EnhancerClass {
  readonly name: string;
}

function boundTo(found: FoundHandler, role: Role): unknown[] {
  const targets = [found.classRef, found.declared];
  const bound = targets.flatMap((target) => metadata<unknown[]>(KEYS[role], target) ?? []);
  return role === 'pipe' ? [...bound, ...pipesOfParameters(found)] : bound;
}

function pipesOfParameters({ classRef, method }: FoundHandler): unknown[] {
  const parameters = metadata<Record<string, ParameterMetadata>>(PARAMETERS_KEY, classRef, method);
  return Object.values(parameters ?? {}).flatMap(({ pipes }) => pipes ?? []);
}

function metadata<T>(key: string, target: object, property?: string): T | undefined {
  return (
    property === undefined
      ? Reflect.getMetadata(key, target)
      : Reflect.getMetadata(key, target, property)
  ) as T | undefined;
}
