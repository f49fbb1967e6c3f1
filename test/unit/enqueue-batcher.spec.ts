import { EnqueueBatcher } from '../../lib/queue/enqueue-batcher.js';
import type { EnqueuedRow, JobRow } from '../../lib/store/statements/enqueue-many.js';
import { signal } from '../support/signal.js';
import { draft } from '../support/store.js';

/** How long a call waits for the holder of its key before it is another key's turn. */
const TURN_MS = 250;

/** A statement that was sent, and what the test lets it come to. */
interface Sent {
  /** The payloads of its jobs. */
  readonly jobs: readonly string[];
  readonly lockTimeout: number | undefined;
  /** Stores the jobs; the id of each tells in which statement and at what place. */
  store(): void;
  fail(error: Error): void;
}

/** A database that answers when it is told to. */
function database() {
  const statements: Sent[] = [];
  const batcher = new EnqueueBatcher(async (rows, lockTimeout) => {
    const { happened, fire } = signal<EnqueuedRow[] | Error>();
    const number = statements.length + 1;
    statements.push({
      jobs: rows.map(({ payload }) => payload),
      lockTimeout,
      store: () => fire(answers(rows, String(number))),
      fail: fire,
    });
    const answer = await happened;
    if (!Array.isArray(answer)) throw answer;
    return answer;
  });
  const sent = (): (readonly string[])[] => statements.map(({ jobs }) => jobs);
  return { batcher, statements, sent };
}

/** Answers in any order: it is the ordinal that counts. */
function answers(rows: readonly JobRow[], prefix: string): EnqueuedRow[] {
  return rows
    .map((_, ordinal) => ({ ordinal, id: `${prefix}.${ordinal}`, inserted: true }))
    .toReversed();
}

/** A database that judges each statement at once. `verdict` answers what is wrong with it, if anything. */
function judge(verdict: (jobs: readonly string[], lockTimeout: number | undefined) => unknown) {
  const sent: (readonly string[])[] = [];
  const batcher = new EnqueueBatcher(async (rows, lockTimeout) => {
    const jobs = rows.map(({ payload }) => payload);
    sent.push(jobs);
    const error = await verdict(jobs, lockTimeout);
    if (error !== undefined) throw error as Error;
    return answers(rows, jobs.join());
  });
  return { batcher, sent };
}

function plain(...names: string[]): JobRow[] {
  return names.map((payload) => draft({ payload }));
}

/** Jobs whose names are their keys. */
function keyed(...names: string[]): JobRow[] {
  return names.map((payload) => draft({ payload, dedupeKey: payload }));
}

/** In one turn of the event loop. */
function enqueueAll(batcher: EnqueueBatcher, jobs: readonly JobRow[]): Promise<EnqueuedRow>[] {
  return jobs.map((job) => batcher.enqueue(job));
}

/** How each call ended: its id, or the code of its error. */
async function outcomes(calls: readonly Promise<EnqueuedRow>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(calls);
  return settled.map((call) =>
    call.status === 'fulfilled' ? call.value.id : (call.reason as { code: unknown }).code,
  );
}

/** Lets everything happen that does not wait for the database. */
async function untilQuiet(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
}

function failure(code: string): Error {
  return Object.assign(new Error(`The database said ${code}`), { code });
}

const names = (count: number, prefix = 'job'): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

describe('calls', () => {
  test('of one turn of the event loop go together', async () => {
    const { batcher, statements, sent } = database();
    const calls = enqueueAll(batcher, plain('a', 'b', 'c'));
    expect(sent()).toEqual([]);
    await untilQuiet();
    expect(sent()).toEqual([['a', 'b', 'c']]);
    statements[0]?.store();
    expect(await outcomes(calls)).toEqual(['1.0', '1.1', '1.2']);
  });

  test('that are made while one statement is on its way go together after it', async () => {
    const { batcher, statements, sent } = database();
    const first = batcher.enqueue(draft({ payload: 'first' }));
    await untilQuiet();
    const others: Promise<EnqueuedRow>[] = [];
    for (const name of ['a', 'b', 'c']) {
      others.push(batcher.enqueue(draft({ payload: name })));
      await untilQuiet();
    }
    expect(sent()).toEqual([['first']]);
    statements[0]?.store();
    expect(await outcomes([first])).toEqual(['1.0']);
    await untilQuiet();
    expect(sent()).toEqual([['first'], ['a', 'b', 'c']]);
    statements[1]?.store();
    expect(await outcomes(others)).toEqual(['2.0', '2.1', '2.2']);
  });

  test('that an answer causes go with those that waited for it', async () => {
    const { batcher, statements, sent } = database();
    const first = batcher.enqueue(draft({ payload: 'first' }));
    const caused = first.then(() => batcher.enqueue(draft({ payload: 'caused' })));
    await untilQuiet();
    const waiting = batcher.enqueue(draft({ payload: 'waiting' }));
    statements[0]?.store();
    await untilQuiet();
    expect(sent()).toEqual([['first'], ['waiting', 'caused']]);
    statements[1]?.store();
    expect(await outcomes([waiting, caused])).toEqual(['2.0', '2.1']);
  });

  test('each hear their own answer, by its ordinal', async () => {
    const batcher = new EnqueueBatcher(async () => [
      { ordinal: 2, id: 'of c', inserted: true },
      { ordinal: 0, id: 'of a', inserted: false },
      { ordinal: 1, id: null, inserted: false },
    ]);
    expect(await Promise.all(enqueueAll(batcher, plain('a', 'b', 'c')))).toEqual([
      { ordinal: 0, id: 'of a', inserted: false },
      { ordinal: 1, id: null, inserted: false },
      { ordinal: 2, id: 'of c', inserted: true },
    ]);
  });

  test('that come when nothing is on its way any more are sent as the first ones were', async () => {
    const { batcher, sent } = judge(() => undefined);
    await outcomes(enqueueAll(batcher, plain('a')));
    await untilQuiet();
    await outcomes(enqueueAll(batcher, plain('b', 'c')));
    expect(sent).toEqual([['a'], ['b', 'c']]);
  });
});

describe('a job that the database refuses', () => {
  const refusing = (code: string, ...bad: string[]) =>
    judge((jobs) => (jobs.some((job) => bad.includes(job)) ? failure(code) : undefined));

  test.each(['22P02', '23514', '42501', 'P0001'])(
    'with %s fails alone, and the others are stored by few statements',
    async (code) => {
      const { batcher, sent } = refusing(code, 'job5');
      const ends = await outcomes(enqueueAll(batcher, plain(...names(8))));
      expect(ends[5]).toBe(code);
      expect(ends.filter((end) => end === code)).toHaveLength(1);
      // All of them, then two halves for each time that eight can be halved.
      expect(sent).toHaveLength(1 + 2 * 3);
      expect(sent.findLast((jobs) => jobs.includes('job5'))).toEqual(['job5']);
    },
  );

  test('among 500 costs two statements for each time that they are halved', async () => {
    const { batcher, sent } = refusing('23514', 'job123');
    const ends = await outcomes(enqueueAll(batcher, plain(...names(500))));
    expect(ends.flatMap((end, index) => (end === '23514' ? [index] : []))).toEqual([123]);
    expect(sent.length).toBeLessThanOrEqual(1 + 2 * 9);
  });

  test('is one of several, and each of them fails alone', async () => {
    const { batcher } = refusing('23514', 'a', 'd');
    const ends = await outcomes(enqueueAll(batcher, plain('a', 'b', 'c', 'd')));
    expect(ends).toEqual(['23514', 'b.0', 'c.0', '23514']);
  });

  test('and came alone is not sent again', async () => {
    const { batcher, sent } = refusing('23514', 'a');
    expect(await outcomes(enqueueAll(batcher, plain('a')))).toEqual(['23514']);
    expect(sent).toEqual([['a']]);
  });

  test('does not change the order in which the others are stored', async () => {
    const { batcher, sent } = refusing('23514', 'job2');
    await outcomes(enqueueAll(batcher, plain(...names(8))));
    const stored = sent.filter((jobs) => !jobs.includes('job2')).flat();
    expect(stored).toEqual(names(8).filter((name) => name !== 'job2'));
  });

  test('holds up later calls no longer than its company takes', async () => {
    const { batcher, sent } = refusing('23514', 'b');
    const calls = enqueueAll(batcher, plain('a', 'b'));
    await untilQuiet();
    calls.push(...enqueueAll(batcher, plain('c', 'd')));
    expect(await outcomes(calls)).toEqual(['a.0', '23514', 'c,d.0', 'c,d.1']);
    expect(sent).toEqual([['a', 'b'], ['a'], ['b'], ['c', 'd']]);
  });
});

describe('a connection that breaks', () => {
  test.each(['OUTCOME_UNKNOWN', 'DATABASE_TIMEOUT', 'ECONNREFUSED', '57P01', '40001'])(
    'with %s is heard by all that were on their way and by no later call, and nothing is sent again',
    async (code) => {
      const { batcher, statements, sent } = database();
      const onTheirWay = enqueueAll(batcher, plain('a', 'b', 'c'));
      await untilQuiet();
      const later = enqueueAll(batcher, plain('d', 'e'));
      statements[0]?.fail(failure(code));
      expect(await outcomes(onTheirWay)).toEqual([code, code, code]);
      await untilQuiet();
      statements[1]?.store();
      expect(await outcomes(later)).toEqual(['2.0', '2.1']);
      expect(sent()).toEqual([
        ['a', 'b', 'c'],
        ['d', 'e'],
      ]);
    },
  );

  test('with an error that has no code is heard by all that were on their way', async () => {
    const { batcher, statements } = database();
    const calls = enqueueAll(batcher, plain('a', 'b'));
    await untilQuiet();
    const reason = new Error('no code');
    statements[0]?.fail(reason);
    await expect(calls[0]).rejects.toBe(reason);
    await expect(calls[1]).rejects.toBe(reason);
  });

  test('while a refused batch is sent in halves is heard by the half that was on its way', async () => {
    const { batcher, statements } = database();
    const ends = outcomes(enqueueAll(batcher, plain('a', 'b', 'c', 'd')));
    await untilQuiet();
    statements[0]?.fail(failure('23514'));
    await untilQuiet();
    statements[1]?.fail(failure('OUTCOME_UNKNOWN'));
    await untilQuiet();
    statements[2]?.store();
    expect(await ends).toEqual(['OUTCOME_UNKNOWN', 'OUTCOME_UNKNOWN', '3.0', '3.1']);
  });
});

describe('one statement', () => {
  const MIB = 1024 * 1024;
  const large = (size: number, meta: string | null = null) =>
    draft({ payload: 'x'.repeat(size), meta });

  /** How many jobs went in each statement. */
  async function batchesOf(jobs: readonly JobRow[]): Promise<number[]> {
    const { batcher, sent } = judge(() => undefined);
    await Promise.all(enqueueAll(batcher, jobs));
    return sent.map(({ length }) => length);
  }

  test.each<[string, () => JobRow[], number[]]>([
    ['takes 500 jobs', () => plain(...names(500)), [500]],
    ['takes no more than 500 jobs', () => plain(...names(1_001)), [500, 500, 1]],
    ['takes 4 MiB of payloads', () => [large(2 * MIB), large(2 * MIB)], [2]],
    ['takes no more than 4 MiB of payloads', () => names(5).map(() => large(2 * MIB)), [2, 2, 1]],
    ['counts the meta, too', () => names(3).map(() => large(MIB, 'x'.repeat(MIB))), [2, 1]],
    [
      'takes a job alone that is larger than that',
      () => [large(5 * MIB), large(5 * MIB), ...plain('a', 'b')],
      [1, 1, 2],
    ],
  ])('%s', async (_, jobs, batches) => {
    expect(await batchesOf(jobs())).toEqual(batches);
  });
});

describe('jobs with a key', () => {
  test('go apart from the others, with a bound on how long they wait for a lock', async () => {
    const { batcher, statements, sent } = database();
    const calls = enqueueAll(batcher, [...plain('a'), ...keyed('k'), ...plain('b'), ...keyed('l')]);
    await untilQuiet();
    expect(sent()).toEqual([
      ['a', 'b'],
      ['k', 'l'],
    ]);
    expect(statements[0]?.lockTimeout).toBeUndefined();
    expect(statements[1]?.lockTimeout).toBeGreaterThan(0);
    for (const statement of statements) statement.store();
    expect(await outcomes(calls)).toEqual(['1.0', '2.0', '1.1', '2.1']);
  });

  test('and jobs without one never wait for each other', async () => {
    const { batcher, statements, sent } = database();
    void enqueueAll(batcher, [...plain('a'), ...keyed('k')]);
    await untilQuiet();
    void enqueueAll(batcher, [...plain('b'), ...keyed('l')]);
    statements[0]?.store(); // the plain one
    await untilQuiet();
    expect(sent()).toEqual([['a'], ['k'], ['b']]);
    statements[1]?.store(); // the keyed one
    await untilQuiet();
    expect(sent()).toEqual([['a'], ['k'], ['b'], ['l']]);
  });

  describe('of which somebody holds one in an open transaction', () => {
    /** A database where the holder of that key does not end before `released`. */
    function held(key: string) {
      const released = signal();
      const { batcher, sent } = judge(async (jobs, lockTimeout) => {
        if (!jobs.includes(key)) return undefined;
        if (lockTimeout !== TURN_MS) return failure('55P03');
        return released.happened;
      });
      return { batcher, sent, released };
    }

    test('are sent in halves until the blocked one waits alone, and later ones go on', async () => {
      const { batcher, sent, released } = held('job2');
      const calls = enqueueAll(batcher, keyed(...names(8)));
      const [blocked] = calls.splice(2, 1) as [Promise<EnqueuedRow>];
      let isAnswered = false;
      void blocked.then(() => (isAnswered = true));
      expect(await outcomes(calls)).not.toContain('55P03');
      // Seven to find it, and one in which it waits.
      expect(sent).toHaveLength(1 + 2 * 3 + 1);
      expect(sent.filter((jobs) => jobs.join() === 'job2')).toHaveLength(2);

      expect(await outcomes(enqueueAll(batcher, keyed('x', 'y')))).toEqual(['x,y.0', 'x,y.1']);
      expect(await outcomes(enqueueAll(batcher, keyed('z')))).toEqual(['z.0']);
      expect(isAnswered).toBe(false);

      released.fire();
      expect(await outcomes([blocked])).toEqual(['job2.0']);
    });

    test('wait alone at once if they came alone', async () => {
      const { batcher, sent, released } = held('k');
      const blocked = batcher.enqueue(draft({ payload: 'k', dedupeKey: 'k' }));
      await untilQuiet();
      expect(await outcomes(enqueueAll(batcher, keyed('l')))).toEqual(['l.0']);
      expect(sent).toEqual([['k'], ['k'], ['l']]);
      released.fire();
      expect(await outcomes([blocked])).toEqual(['k.0']);
    });

    test('have turn after turn until the holder has ended', async () => {
      const { batcher, statements } = database();
      const blocked = batcher.enqueue(draft({ payload: 'k', dedupeKey: 'k' }));
      await untilQuiet();
      statements[0]?.fail(failure('55P03'));
      await untilQuiet();
      expect(statements[1]).toMatchObject({ jobs: ['k'], lockTimeout: TURN_MS });
      statements[1]?.fail(failure('55P03'));
      await untilQuiet();
      expect(statements[2]).toMatchObject({ jobs: ['k'], lockTimeout: TURN_MS });
      statements[2]?.store();
      expect(await outcomes([blocked])).toEqual(['3.0']);
    });

    test('wait in the database once a key and for two keys at a time, whoever else comes', async () => {
      const { batcher, statements } = database();
      for (const key of ['a', 'b', 'c']) {
        void batcher.enqueue(draft({ payload: key, dedupeKey: key }));
        await untilQuiet();
        statements.at(-1)?.fail(failure('55P03'));
        await untilQuiet();
      }
      const again = batcher.enqueue(draft({ payload: 'a again', dedupeKey: 'a' }));
      await untilQuiet();
      const waiting = statements.filter(({ lockTimeout }) => lockTimeout === TURN_MS);
      expect(waiting.map(({ jobs }) => jobs)).toEqual([['a'], ['b']]);

      waiting[0]?.store();
      await untilQuiet();
      expect(
        statements
          .slice(-2)
          .map(({ jobs }) => jobs.join())
          .sort(),
      ).toEqual(['a again', 'c']);
      statements.find(({ jobs }) => jobs.join() === 'a again')?.store();
      expect(await outcomes([again])).toEqual([expect.stringMatching(/\.0$/)]);
    });

    test('are told after half a minute, and the others of the key go on waiting', async () => {
      const { batcher, statements } = database();
      const old = batcher.enqueue(draft({ payload: 'old', dedupeKey: 'k' }));
      await untilQuiet();
      statements[0]?.fail(failure('55P03'));
      await untilQuiet();
      const { now } = performance;
      performance.now = () => now.call(performance) + 31_000;
      try {
        const young = batcher.enqueue(draft({ payload: 'young', dedupeKey: 'k' }));
        statements[1]?.fail(failure('55P03'));
        expect(await outcomes([old])).toEqual(['DATABASE_TIMEOUT']);
        await untilQuiet();
        statements[2]?.store();
        expect(await outcomes([young])).toEqual(['3.0']);
      } finally {
        performance.now = now;
      }
    });

    test('hear of any other error as it is', async () => {
      const { batcher, statements } = database();
      const blocked = batcher.enqueue(draft({ payload: 'k', dedupeKey: 'k' }));
      await untilQuiet();
      statements[0]?.fail(failure('55P03'));
      await untilQuiet();
      statements[1]?.fail(failure('23514'));
      expect(await outcomes([blocked])).toEqual(['23514']);
    });
  });
});

test('a lock that jobs without a key could not have is told to all of them', async () => {
  const { batcher, sent } = judge(() => failure('55P03'));
  expect(await outcomes(enqueueAll(batcher, plain('a', 'b')))).toEqual(['55P03', '55P03']);
  expect(sent).toHaveLength(1);
});
