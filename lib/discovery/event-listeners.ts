import { PgQueueError } from '../contracts/errors.js';
import {
  JOB_EVENT_TYPES,
  type JobEvent,
  type JobEventListener,
  type JobEventOptions,
} from '../contracts/job-events.js';
import {
  invalid,
  isPlainObject,
  isStorableName,
  MAX_BYTES,
  refuseUnknown,
} from '../contracts/option-checks.js';
import { DEFAULT_INSTANCE } from '../contracts/tokens.js';
import { eventListenersOf, type EventListenerMetadata } from '../decorators/metadata.js';
import {
  classOf,
  isPerJob,
  methodsOf,
  prototypeOf,
  type HandlerExplorer,
  type HostWrapper,
} from './handler-explorer.js';

const OPTION_NAMES = ['kind', 'instance'] as const satisfies readonly (keyof JobEventOptions)[];

interface FoundListener extends EventListenerMetadata {
  readonly method: string;
  readonly className: string;
  readonly wrapper: HostWrapper;
}

/**
 * The methods with `@OnJobEvent` of one queue instance, checked and ready to be called.
 * @param instances the names of all instances of the application
 * @throws PgQueueError `INVALID_OPTION` or `INVALID_HANDLER`, naming class, method and module
 */
export function buildEventListeners(
  explorer: HandlerExplorer,
  instance: string,
  instances: ReadonlySet<string>,
): JobEventListener[] {
  return explorer
    .hosts()
    .flatMap(listenersIn)
    .map((found) => ({ found, owner: checkedInstance(found, instances) }))
    .filter(({ owner }) => owner === instance)
    .map(({ found }) => register(found));
}

function listenersIn(wrapper: HostWrapper): FoundListener[] {
  const prototype = prototypeOf(wrapper);
  if (prototype === undefined) return [];
  const className = classOf(prototype, wrapper).name;
  return methodsOf(prototype).flatMap(({ owner, method, declared }) =>
    eventListenersOf(owner, method, declared).map((said) => ({
      ...said,
      method,
      className,
      wrapper,
    })),
  );
}

function checkedInstance(found: FoundListener, instances: ReadonlySet<string>): string {
  return explained(found, () => {
    if (!isPlainObject(found.options)) throw invalid('options', found.options, 'an object');
    refuseUnknown('options of @OnJobEvent', found.options, OPTION_NAMES);
    const { instance = DEFAULT_INSTANCE } = found.options;
    if (instances.has(instance)) return instance;
    const known = [...instances].map((name) => `'${name}'`).join(', ') || 'none';
    throw invalid(
      'instance',
      instance,
      `the name of a forRoot that is imported. Known are: ${known}`,
    );
  });
}

function register(found: FoundListener): JobEventListener {
  const { type, options, wrapper, method } = found;
  return explained(found, () => {
    if (!JOB_EVENT_TYPES.includes(type)) {
      throw invalid('type', type, `one of: ${JOB_EVENT_TYPES.join(', ')}`);
    }
    const kinds = kindsOf(options.kind);
    if (isPerJob(wrapper)) {
      throw new PgQueueError(
        'INVALID_HANDLER',
        'Its class has the request or transient scope, or depends on such a provider, and an event has no request. Move the method to a class of the default scope.',
      );
    }
    const host = wrapper.instance as Record<string, (event: JobEvent) => unknown>;
    return { type, kinds, origin: originOf(found), call: (event) => host[method]?.(event) };
  });
}

function kindsOf(kind: JobEventOptions['kind']): ReadonlySet<string> | undefined {
  if (kind === undefined) return undefined;
  const kinds: readonly unknown[] = Array.isArray(kind) ? kind : [kind];
  const isName = (name: unknown): name is string => isStorableName(name, MAX_BYTES.kind);
  if (kinds.length > 0 && kinds.every(isName)) return new Set(kinds);
  throw invalid('kind', kind, `a kind of 1 to ${MAX_BYTES.kind} bytes, or a list of kinds`);
}

/** A wrong option is no use without the method that it stands at. */
function explained<T>(found: FoundListener, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof PgQueueError)) throw error;
    const module = found.wrapper.host?.name ?? 'an unknown module';
    const where = `@OnJobEvent('${String(found.type)}') on ${originOf(found)} in ${module}`;
    throw new PgQueueError(error.code, `${where}: ${error.message}`);
  }
}

function originOf({ className, method }: FoundListener): string {
  return `${className}.${method}`;
}
