import { filter, firstValueFrom, map, merge, NEVER, of, Subject, take } from 'rxjs';
import { callGuarded, GuardedObservable } from '../../lib/events/guarded-observable.js';

let source: Subject<number>;
let guarded: GuardedObservable<number>;
let faults: unknown[];
beforeEach(() => {
  source = new Subject();
  faults = [];
  guarded = new GuardedObservable(
    (subscriber) => source.subscribe(subscriber),
    (fault) => faults.push(fault),
  );
});

/** RxJS throws what it calls unhandled in a later turn, which would end this test as a failure. */
function laterTurns(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

const fault = new Error('a fault of the application');
const throwing = () => {
  throw fault;
};

test('a subscriber that throws is reported, and stays subscribed; the others hear everything', async () => {
  const heard: number[] = [];
  let calls = 0;
  guarded.subscribe(() => {
    calls += 1;
    throw fault;
  });
  guarded.subscribe({ next: throwing });
  guarded.subscribe((value) => heard.push(value));
  source.next(1);
  source.next(2);
  await laterTurns();
  expect(faults).toEqual([fault, fault, fault, fault]);
  expect(calls).toBe(2);
  expect(heard).toEqual([1, 2]);
});

test('so is an async subscriber that rejects', async () => {
  // oxlint-disable-next-line typescript/no-misused-promises -- that is what people write
  guarded.subscribe(async () => {
    await Promise.resolve();
    throw fault;
  });
  source.next(1);
  await laterTurns();
  expect(faults).toEqual([fault]);
});

test('so is a subscriber at the end of a pipe, and an operator that nobody catches', async () => {
  const heard: number[] = [];
  guarded
    .pipe(
      filter((n) => n > 1),
      map((n) => n * 10),
    )
    .subscribe(throwing);
  guarded.pipe(map(throwing)).subscribe((value) => heard.push(value));
  guarded
    .pipe(
      filter((n) => n > 1),
      map((n) => n * 10),
    )
    .subscribe((value) => heard.push(value));
  source.next(1);
  source.next(2);
  await laterTurns();
  expect(heard).toEqual([20]);
  expect(faults).toEqual([fault, fault]);
});

test('an error handler is given what an operator threw, and what it throws itself is reported', async () => {
  const errors: unknown[] = [];
  guarded.pipe(map(throwing)).subscribe({ error: (error) => errors.push(error) });
  guarded.pipe(map(throwing)).subscribe({ error: throwing });
  source.next(1);
  await laterTurns();
  expect(errors).toEqual([fault]);
  expect(faults).toContain(fault);
});

test('everything else is as in any observable', async () => {
  const heard: unknown[] = [];
  const observer = {
    prefix: 'n',
    next(value: number) {
      heard.push(`${this.prefix}${value}`);
    },
    complete: () => heard.push('complete'),
  };
  const subscription = guarded.subscribe(observer);
  guarded.pipe(take(1)).subscribe({ complete: () => heard.push('taken') });
  merge(guarded, NEVER, of(0)).subscribe((value) => heard.push(value));
  guarded.subscribe();
  const first = firstValueFrom(guarded);
  const each = guarded.forEach((value) => heard.push(`each ${value}`));
  source.next(1);
  subscription.unsubscribe();
  source.next(2);
  expect(await first).toBe(1);
  guarded.subscribe(observer);
  source.complete();
  await each;
  expect(heard).toEqual([0, 'n1', 'taken', 1, 'each 1', 2, 'each 2', 'complete']);
  expect(source.observed).toBe(false);
  expect(faults).toEqual([]);
});

test('forEach rejects with what its function throws', async () => {
  const each = guarded.forEach(throwing);
  source.next(1);
  await expect(each).rejects.toBe(fault);
  expect(source.observed).toBe(false);
});

test.each<[string, () => unknown, unknown[]]>([
  ['returns', () => 7, []],
  ['throws', throwing, [fault]],
  ['rejects', () => Promise.reject(fault), [fault]],
  ['resolves', () => Promise.resolve(), []],
])('callGuarded takes something that %s', async (_, call, reported) => {
  callGuarded(call, (error) => faults.push(error));
  await laterTurns();
  expect(faults).toEqual(reported);
});
