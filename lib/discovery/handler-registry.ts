import type { RetryableRule } from '../contracts/backoff.js';
import { PgQueueError } from '../contracts/errors.js';
import type { HandlerTable, RegisteredHandler } from '../contracts/handler.js';
import { DEFAULT_INSTANCE } from '../contracts/tokens.js';
import type { FoundHandler } from './handler-explorer.js';
import type { HandlerInvoker } from './handler-invoker.js';
import { resolveHandlerOptions } from './handler-options.js';

/** What {@link buildHandlerTable} needs besides the handlers. */
export interface HandlerTableSettings {
  /** The instance whose table is built. */
  readonly instance: string;
  /** Every instance of the application, {@link DEFAULT_INSTANCE} included if there is one without a name. */
  readonly instances: ReadonlySet<string>;
  /** What the options of the module say about handlers that don't say it themselves. */
  readonly defaults: { readonly keepDone: boolean; readonly retryable: RetryableRule };
  readonly invoker: Pick<HandlerInvoker, 'bind'>;
}

/**
 * The handlers of one queue instance, checked and ready to be called.
 * @param found those of all instances.
 * @throws PgQueueError `INVALID_OPTION` for a wrong option or an instance that does not exist,
 * `DUPLICATE_HANDLER` for a kind with two handlers, `INVALID_HANDLER` for one that can't be called as
 * declared; each names class, method and module.
 */
export function buildHandlerTable(
  found: readonly FoundHandler[],
  settings: HandlerTableSettings,
): HandlerTable {
  const owners = new Map<string, FoundHandler>();
  const table = new Map<string, RegisteredHandler>();
  for (const handler of found) {
    if (instanceOf(handler, settings.instances) !== settings.instance) continue;
    const owner = owners.get(handler.kind);
    if (owner) throw duplicate(owner, handler);
    owners.set(handler.kind, handler);
    table.set(handler.kind, register(handler, settings));
  }
  return table;
}

function register(found: FoundHandler, settings: HandlerTableSettings): RegisteredHandler {
  return {
    kind: found.kind,
    ...explained(found, () => resolveHandlerOptions(found.kind, found.options, settings.defaults)),
    ...(found.schedules && { schedules: found.schedules }),
    origin: originOf(found),
    run: settings.invoker.bind(found),
  };
}

function instanceOf(found: FoundHandler, instances: ReadonlySet<string>): string {
  const instance = found.options?.instance ?? DEFAULT_INSTANCE;
  if (instances.has(instance)) return instance;
  const known = [...instances].map((name) => `'${name}'`).join(', ') || 'none';
  const missing =
    instance === DEFAULT_INSTANCE
      ? 'names no instance, but no forRoot without a name is imported'
      : `has the option \`instance\` '${String(instance)}', but no forRoot of that name is imported`;
  throw new PgQueueError(
    'INVALID_OPTION',
    `${describe(found)} ${missing}. Known instances: ${known}. Name one of them, or import PgQueueModule.forRoot for it.`,
  );
}

function duplicate(first: FoundHandler, second: FoundHandler): PgQueueError {
  const [a, b] = [originOf(first), originOf(second)];
  const [moduleA, moduleB] = [first.moduleName, second.moduleName];
  const isSameMethod = first.classRef === second.classRef && first.method === second.method;
  if (isSameMethod && first.wrapper === second.wrapper) {
    return new PgQueueError(
      'DUPLICATE_HANDLER',
      `${a} in ${moduleA} declares the kind '${first.kind}' twice. Remove one of its @JobHandler('${first.kind}').`,
    );
  }
  const advice = isSameMethod
    ? `Provide ${first.classRef.name} in one place, and export it from there to be used elsewhere.`
    : 'A kind has one handler: rename one of them, or remove it.';
  return new PgQueueError(
    'DUPLICATE_HANDLER',
    `The kind '${first.kind}' has two handlers: ${a} in ${moduleA} and ${b} in ${moduleB}. ${advice}`,
  );
}

/** A wrong option is no use without the method that it stands at. */
function explained<T>(found: FoundHandler, resolve: () => T): T {
  try {
    return resolve();
  } catch (error) {
    if (!(error instanceof PgQueueError)) throw error;
    throw new PgQueueError(error.code, `${describe(found)}: ${error.message}`);
  }
}

function describe(found: FoundHandler): string {
  return `@JobHandler('${String(found.kind)}') on ${originOf(found)} in ${found.moduleName}`;
}

function originOf(found: FoundHandler): string {
  return `${found.classRef.name}.${found.method}`;
}
