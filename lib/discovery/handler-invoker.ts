import { Injectable, Logger } from '@nestjs/common';
import {
  ApplicationConfig,
  type ContextId,
  ContextIdFactory,
  ExternalContextCreator,
  ModuleRef,
  ModulesContainer,
  type NestContainer,
} from '@nestjs/core';
import { isObservable, lastValueFrom } from 'rxjs';
import { PgQueueError } from '../contracts/errors.js';
import type { JobContext } from '../contracts/job.js';
import { JOB_CONTEXT_TYPE, PARAMETERS_KEY, PAYLOAD_PARAMETER } from '../decorators/metadata.js';
import {
  hasFilter,
  plainArguments,
  refuseEnhancersThatCannotRun,
  type Argument,
} from './bound-enhancers.js';
import { isPerJob, type FoundHandler } from './handler-explorer.js';

/** Calls a handler with everything that Nest binds to it. */
export type Run = (job: JobContext) => Promise<unknown>;

type Host = Record<string, (...args: unknown[]) => unknown>;

/** `(payload, job)` are the arguments of the execution context; parameter metadata picks from them. */
type Call = (payload: unknown, job: JobContext) => Promise<unknown>;

const PARAMETERS = {
  exchangeKeyForValue: (type: number, _data: unknown, [payload, job]: [unknown, JobContext]) =>
    type === PAYLOAD_PARAMETER ? payload : job,
};

/** Turns a found handler into a function of a job. */
@Injectable()
export class HandlerInvoker {
  private readonly container: NestContainer | undefined;
  private readonly withoutGlobals: ExternalContextCreator;

  constructor(
    moduleRef: ModuleRef,
    private readonly withGlobals: ExternalContextCreator,
    private readonly modules: ModulesContainer,
  ) {
    this.container = containerOf(moduleRef);
    this.withoutGlobals = this.container ? creatorWithoutGlobals(this.container) : withGlobals;
  }

  /**
   * Guards, interceptors, pipes and filters bound to the method or class run, global ones only with
   * `globalEnhancers`. A guard that refuses makes the job fail with Nest's `ForbiddenException`. A filter
   * that throws makes it fail with what it threw; one that returns a value completes it with that value.
   *
   * A host that is request-scoped, durable, transient, or that depends on a request-scoped provider is
   * made anew for each job (a durable one as the application's `ContextIdStrategy` says, whose `attach`
   * is given the `JobContext`). There `REQUEST` injects the `JobContext`; in a durable host the payload
   * of the strategy, as everywhere in Nest. Nest calls no life-cycle hook on such an instance; it is
   * garbage when the job has ended.
   *
   * @throws PgQueueError `INVALID_HANDLER` if something bound to the handler could not run.
   */
  bind(found: FoundHandler): Run {
    refuseEnhancersThatCannotRun(found, this.container?.applicationConfig);
    const creator = this.creatorFor(found);
    if (isPerJob(found.wrapper)) return (job) => this.runOnFreshHost(found, creator, job);
    const host = found.wrapper.instance as Host;
    const plain = this.container && plainArguments(found);
    if (plain) return directly(methodOf(found, host), host, plain);
    const call = contextOf(found, creator, host);
    return (job) => call(job.payload, job);
  }

  private async runOnFreshHost(
    found: FoundHandler,
    creator: ExternalContextCreator,
    job: JobContext,
  ): Promise<unknown> {
    const { wrapper } = found;
    // The module's own ModuleRef: any other would take the first module that has the class.
    const moduleRef = wrapper.host?.getProviderByKey<ModuleRef>(ModuleRef).instance as ModuleRef;
    const contextId = ContextIdFactory.getByRequest(job);
    const isDurable = wrapper.isDependencyTreeDurable();
    moduleRef.registerRequestByContextId(requestOf(job, contextId, isDurable), contextId);
    const host = await moduleRef.resolve<Host>(wrapper.token as never, contextId, { strict: true });
    return contextOf(found, creator, host, contextId)(job.payload, job);
  }

  /** Nest looks for the host's module among providers only, and would find none for a controller. */
  private creatorFor({ wrapper, options }: FoundHandler): ExternalContextCreator {
    const creator = options.globalEnhancers ? this.withGlobals : this.withoutGlobals;
    const [moduleKey = ''] =
      [...this.modules.entries()].find(([, module]) => module === wrapper.host) ?? [];
    return Object.create(creator, {
      getContextModuleKey: { value: () => moduleKey },
    }) as ExternalContextCreator;
  }
}

/** As Nest calls a method to which nothing is bound, without what it does for the rest. */
function directly(callback: Host[string], host: Host, plain: readonly Argument[]): Run {
  return async (job) => {
    const values = { payload: job.payload, job, nothing: undefined };
    const result = await callback.apply(
      host,
      plain.map((argument) => values[argument]),
    );
    return isObservable(result) ? lastValueFrom(result) : result;
  };
}

function methodOf(found: FoundHandler, host: Host): Host[string] {
  const callback = host[found.method];
  if (typeof callback === 'function') return callback;
  throw new PgQueueError(
    'INVALID_HANDLER',
    `${found.classRef.name} in ${found.moduleName} was made without the method ${found.method}, which handles '${found.kind}'. Let its factory return an instance of ${found.classRef.name}.`,
  );
}

function contextOf(
  found: FoundHandler,
  creator: ExternalContextCreator,
  host: Host,
  contextId?: ContextId,
): Call {
  return creator.create(
    host,
    methodOf(found, host),
    found.method,
    PARAMETERS_KEY,
    PARAMETERS,
    contextId,
    contextId && found.wrapper.id,
    {
      guards: true,
      interceptors: true,
      // Without a filter Nest's own would log each failure a second time.
      filters: found.options.globalEnhancers === true || hasFilter(found),
    },
    JOB_CONTEXT_TYPE,
  );
}

/**
 * What `REQUEST` injects: for a durable host only what the strategy says, since that instance outlives
 * the job. Nest does the same for HTTP, but there it writes on the request itself.
 */
function requestOf(job: JobContext, contextId: ContextId, isDurable: boolean): unknown {
  const { payload } = contextId;
  if (isDurable) return payload;
  if (typeof payload !== 'object' || payload === null) return job;
  return Object.create(job, Object.getOwnPropertyDescriptors(payload));
}

/**
 * An application has one configuration of global guards, interceptors, pipes and filters, and everything
 * that Nest makes reads it. This one reads an empty configuration instead: it is given the container with
 * that one property replaced.
 */
function creatorWithoutGlobals(container: NestContainer): ExternalContextCreator {
  return ExternalContextCreator.fromContainer(
    Object.create(container, {
      applicationConfig: { value: new ApplicationConfig() },
    }) as NestContainer,
  );
}

/**
 * The container is a protected member, there in Nest 11 and 12. Should a version lack it, handlers run
 * by the creator that Nest injects, so global guards and the like run for jobs too, and a warning says so.
 */
function containerOf(moduleRef: ModuleRef): NestContainer | undefined {
  const container = moduleRef['container'] as NestContainer | undefined;
  if (typeof container?.getModules === 'function') return container;
  new Logger('PgQueue').warn(
    'This version of Nest does not let job handlers leave out global guards, interceptors and pipes: they run for every job. Let them return early if isJobExecution(context).',
  );
  return undefined;
}
