import { PgQueueError } from '../contracts/errors.js';

/** A method that a decorator stands on. */
export interface DeclaredMethod {
  readonly name: string;
  // oxlint-disable-next-line typescript/no-unsafe-function-type -- any method can be decorated
  readonly function: Function;
}

/** @throws PgQueueError `INVALID_HANDLER` on anything but a method of an instance that is named by a string */
export function declaredMethod(
  decorator: string,
  target: object,
  name: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): DeclaredMethod {
  const isStatic = typeof target === 'function';
  const className = isStatic ? target.name : target.constructor.name;
  const fail = (what: string) =>
    new PgQueueError(
      'INVALID_HANDLER',
      `${decorator} is on ${className}.${String(name)}, ${what}. Put it on a method of an instance that has a plain name.`,
    );
  if (isStatic) throw fail('a static member that no provider has');
  if (typeof name === 'symbol') throw fail('which is named by a symbol');
  if (typeof descriptor?.value !== 'function') throw fail('which is a property and no method');
  return { name, function: descriptor.value };
}
