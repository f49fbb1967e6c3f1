import { Observable, type Observer, type Operator, type Subscriber, type Subscription } from 'rxjs';

/** Hears of what a subscriber threw. */
export type ReportFault = (error: unknown) => void;

/**
 * An observable whose subscribers may throw. By itself RxJS throws what a subscriber or an operator without an
 * error handler threw once more, where nothing catches it, which ends a Node process. Here it is reported, also
 * at the end of a `pipe`, and also if the subscriber is an async function.
 */
export class GuardedObservable<T> extends Observable<T> {
  constructor(
    subscribe: (subscriber: Subscriber<T>) => Subscription,
    private readonly report: ReportFault,
  ) {
    super(subscribe);
  }

  /** What operators call: their observables are guarded too. */
  override lift<R>(operator?: Operator<T, R>): Observable<R> {
    const lifted = super.lift(operator);
    return new GuardedObservable((subscriber) => lifted.subscribe(subscriber), this.report);
  }

  override subscribe(
    observerOrNext?: Partial<Observer<T>> | ((value: T) => void) | null,
    error?: ((error: unknown) => void) | null,
    complete?: (() => void) | null,
  ): Subscription {
    // An operator's own subscriber hands errors on to where they are caught.
    if (isSubscriber<T>(observerOrNext)) return super.subscribe(observerOrNext);
    const observer =
      typeof observerOrNext === 'function' || !observerOrNext
        ? { next: observerOrNext, error, complete }
        : observerOrNext;
    return super.subscribe({
      next: (value) => this.guard(() => observer.next?.(value)),
      error: (fault: unknown) =>
        observer.error ? this.guard(() => observer.error?.(fault)) : this.report(fault),
      complete: () => this.guard(() => observer.complete?.()),
    });
  }

  private guard(call: () => unknown): void {
    callGuarded(call, this.report);
  }
}

/** Calls something of the application's: whatever it throws or rejects with is reported, and goes no further. */
export function callGuarded(call: () => unknown, report: ReportFault): void {
  try {
    const returned = call();
    if (isThenable(returned)) returned.then(undefined, report);
  } catch (error) {
    report(error);
  }
}

function isSubscriber<T>(observer: unknown): observer is Subscriber<T> {
  return typeof observer === 'object' && observer !== null && 'add' in observer;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
