import { Injectable } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import type { DeclaredSchedule, JobHandlerOptions } from '../contracts/handler.js';
import { handlersOf, schedulesOf } from '../decorators/metadata.js';
import { schedulesByKind } from './handler-schedules.js';

/** Nest's record of a provider or controller. */
export type HostWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** One use of `@JobHandler` on something that the application provides. */
export interface FoundHandler {
  readonly kind: string;
  readonly options: JobHandlerOptions;
  readonly schedules?: readonly DeclaredSchedule[] | undefined;
  /** The class of the host; it may have inherited the method. */
  readonly classRef: NamedClass;
  readonly method: string;
  /** The method as the class has it, with the metadata of whatever is bound to it. */
  readonly declared: object;
  readonly moduleName: string;
  readonly wrapper: HostWrapper;
}

interface NamedClass {
  readonly name: string;
}

/**
 * Finds the decorated methods of all providers and controllers. It looks at prototypes and property
 * descriptors only: no getter is called and no property value of an instance is read.
 *
 * Not found, because there is nothing to look at while the application starts: modules loaded lazily
 * after it, and a `useFactory` provider with a scope of its own or a request-scoped dependency whose
 * token is not a class. With a class as the token its methods are taken from that class.
 */
@Injectable()
export class HandlerExplorer {
  constructor(private readonly discovery: DiscoveryService) {}

  /** The handlers of all queue instances. Call it when every provider has been made: from `onModuleInit` on. */
  explore(): FoundHandler[] {
    return this.hosts().flatMap((wrapper) => {
      const prototype = prototypeOf(wrapper);
      return prototype ? handlersIn(prototype, wrapper) : [];
    });
  }

  /** One wrapper per instance: an alias, or a factory that passes an instance on, adds no host. */
  hosts(): HostWrapper[] {
    const hosts = new Map<object, HostWrapper>();
    for (const wrapper of [...this.discovery.getProviders(), ...this.discovery.getControllers()]) {
      if (wrapper.isAlias) continue;
      const identity: unknown = isPerJob(wrapper) ? wrapper : wrapper.instance;
      if (typeof identity !== 'object' || identity === null) continue;
      // Where a class and a factory provide the same instance, Nest binds guards and the like by the class.
      if (!hosts.has(identity) || !wrapper.isNotMetatype) hosts.set(identity, wrapper);
    }
    return [...hosts.values()];
  }
}

/**
 * Whether each job gets an instance of its own: request-scoped and durable hosts, hosts that depend on
 * such a provider (a durable instance is shared as its strategy says), and transient ones.
 */
export function isPerJob(wrapper: HostWrapper): boolean {
  return wrapper.isTransient || !wrapper.isDependencyTreeStatic();
}

/** Where the methods of a host are looked for; undefined if its class is not known. */
export function prototypeOf(wrapper: HostWrapper): object | undefined {
  if (!isPerJob(wrapper)) return Object.getPrototypeOf(wrapper.instance) as object;
  const classRef: unknown = wrapper.isNotMetatype ? wrapper.token : wrapper.metatype;
  return typeof classRef === 'function' ? (classRef.prototype as object) : undefined;
}

function handlersIn(prototype: object, wrapper: HostWrapper): FoundHandler[] {
  const classRef = classOf(prototype, wrapper);
  const moduleName = wrapper.host?.name ?? 'an unknown module';
  return methodsOf(prototype).flatMap(({ owner, method, declared }) => {
    const handlers = handlersOf(owner, method, declared);
    const schedules = schedulesByKind(
      `${classRef.name}.${method} in ${moduleName}`,
      handlers.map(({ kind }) => kind),
      schedulesOf(owner, method, declared),
    );
    return handlers.map(({ kind, options }) => ({
      kind,
      options,
      schedules: schedules.get(kind),
      classRef,
      method,
      declared,
      moduleName,
      wrapper,
    }));
  });
}

interface Method {
  readonly owner: object;
  readonly method: string;
  readonly declared: object;
}

/** The methods of a prototype and its parents; an overridden method once, as the subclass has it. */
export function methodsOf(prototype: object): Method[] {
  const methods = new Map<string, Method | undefined>([['constructor', undefined]]);
  let owner: object | null = prototype;
  while (owner !== null && owner !== Object.prototype) {
    for (const method of Object.getOwnPropertyNames(owner)) {
      if (methods.has(method)) continue;
      const declared: unknown = Object.getOwnPropertyDescriptor(owner, method)?.value;
      const isMethod = typeof declared === 'function';
      methods.set(method, isMethod ? { owner, method, declared } : undefined);
    }
    owner = Object.getPrototypeOf(owner) as object | null;
  }
  return [...methods.values()].filter((method) => method !== undefined);
}

/** The class of a host; it may have inherited its methods. */
export function classOf(prototype: object, wrapper: HostWrapper): NamedClass {
  const classRef: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value;
  return typeof classRef === 'function' ? classRef : { name: String(wrapper.name) };
}
