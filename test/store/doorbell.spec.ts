import { enqueuing, letGo, wait } from '../../lib/store/statements/workers.js';
import { eventually } from '../support/eventually.js';
import { seededRandom } from '../support/random.js';
import { openStore, type Session, type TestStore } from '../support/store.js';

/** Repeat a run with SEED=… */
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000);

let t: TestStore;
/** Hears every notification, and waits for none. */
let listener: Session;
let enqueuer: Session;
let other: Session;
let waiter: Session;
let second: Session;
let channel: string;
let heard: string[] = [];

beforeAll(async () => {
  t = await openStore({ days: false });
  enqueuer = await t.connect();
  other = await t.connect();
  waiter = await t.connect();
  second = await t.connect();
  listener = await t.connect();
  listener.client.on('notification', ({ payload }) => heard.push(payload ?? ''));
  channel = await listener.value('select pgqueue.doorbell()');
  await listener.query(`listen "${channel}"`);
});
afterEach(async () => {
  for (const session of [enqueuer, other, waiter, second]) {
    await session.rollback();
    await session.run(letGo, undefined);
  }
  await t.observer.query('delete from pgqueue.jobs');
  await rings();
});
afterAll(() => t.close());

/** The rings since the last call. They are in the order of commits, so this sends one and takes what is before. */
async function rings(): Promise<string[]> {
  await t.observer.query('select pg_notify($1, $2)', [channel, 'the end']);
  await eventually(() => expect(heard).toContain('the end'), { interval: 1 });
  return heard.splice(0).filter((ring) => ring !== 'the end');
}

function insert(session: Session, queue = 'default', count = 1): Promise<unknown> {
  return session.query(
    `insert into pgqueue.jobs (kind, queue) select 'k', $1 from generate_series(1, $2::int)`,
    [queue, count],
  );
}

/** One job in each of so many queues, in one statement. */
function insertInto(session: Session, queues: number): Promise<unknown> {
  return session.query(
    `insert into pgqueue.jobs (kind, queue) select 'k', 'q' || n from generate_series(1, $1::int) as n`,
    [queues],
  );
}

async function ask(session: Session, ...queues: string[]) {
  const [answer] = await session.run(wait, queues);
  if (answer === undefined) throw new Error('No answer');
  return answer;
}

async function stillEnqueuing(session: Session, ...queues: string[]): Promise<string[]> {
  return (await session.run(enqueuing, queues)).flat();
}

/** The transaction that the session is in, as pg_locks calls it. */
function transactionOf(session: Session): Promise<string> {
  return session.value(
    'select virtualtransaction from pg_locks where pid = pg_backend_pid() limit 1',
  );
}

/** How many advisory locks the session holds. */
function locksOf(session: Session): Promise<number> {
  return t.observer.value(
    `select count(*)::int from pg_locks where locktype = 'advisory' and pid = $1`,
    [session.pid],
  );
}

function jobs(session: Session): Promise<number> {
  return session.value('select count(*)::int from pgqueue.jobs');
}

describe('while nobody waits', () => {
  const ways: [string, string][] = [
    ['an INSERT', `insert into pgqueue.jobs (kind) values ('k')`],
    ['one of many jobs', `insert into pgqueue.jobs (kind) select 'k' from generate_series(1, 500)`],
    ['pgqueue.enqueue', `select pgqueue.enqueue('k')`],
    [
      'enqueue_many_v1',
      `select pgqueue.enqueue_many_v1(array['a', 'b'], array['k'], '[1, 2]', null, null, null, null, null, null)`,
    ],
  ];
  test.each(ways)('%s rings nobody, and leaves no lock', async (_, text) => {
    await enqueuer.query(text);
    expect(await rings()).toEqual([]);
    expect(await locksOf(enqueuer)).toBe(0);
  });

  test('a transaction holds one lock a queue until its end', async () => {
    await enqueuer.begin();
    for (const queue of ['a', 'b', 'a']) await insert(enqueuer, queue, 10);
    expect(await locksOf(enqueuer)).toBe(2);
    await enqueuer.commit();
    expect(await locksOf(enqueuer)).toBe(0);
    expect(await rings()).toEqual([]);
  });

  test('a waiter of another queue is not rung for', async () => {
    await ask(waiter, 'a');
    await insert(enqueuer, 'b');
    expect(await rings()).toEqual([]);
  });
});

describe('while somebody waits', () => {
  test('a queue rings once a transaction, however many statements and jobs', async () => {
    await ask(waiter, 'a', 'b', 'c');
    await enqueuer.begin();
    for (const queue of ['a', 'b', 'a']) await insert(enqueuer, queue, 50);
    expect(await rings()).toEqual([]);
    await enqueuer.commit();
    expect((await rings()).toSorted()).toEqual(['a', 'b']);
  });

  test('every transaction rings', async () => {
    await ask(waiter, 'a');
    await insert(enqueuer, 'a');
    await insert(other, 'a');
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual(['a', 'a', 'a']);
  });

  test('a transaction that was open before and enqueues now rings', async () => {
    await enqueuer.begin();
    await jobs(enqueuer);
    expect(await ask(waiter, 'a')).toEqual({ refused: 0, enqueuing: [] });
    await insert(enqueuer, 'a');
    await enqueuer.commit();
    expect(await rings()).toEqual(['a']);
  });

  test('a transaction that enqueued before and enqueues again rings', async () => {
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    const { enqueuing: before } = await ask(waiter, 'a');
    expect(before).toEqual([await transactionOf(enqueuer)]);
    await insert(enqueuer, 'a');
    await enqueuer.commit();
    expect(await rings()).toEqual(['a']);
  });

  test('two transactions can enqueue into a queue at once, and both ring', async () => {
    await ask(waiter, 'a');
    for (const session of [enqueuer, other]) {
      await session.begin();
      await insert(session, 'a');
    }
    await enqueuer.commit();
    await other.commit();
    expect(await rings()).toEqual(['a', 'a']);
  });
});

describe('a transaction that enqueued before anybody waited', () => {
  test('is shown to the waiter until it has committed, and then its job is visible', async () => {
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    const transaction = await transactionOf(enqueuer);
    expect(await ask(waiter, 'a')).toEqual({ refused: 0, enqueuing: [transaction] });
    expect(await jobs(waiter)).toBe(0);
    expect(await stillEnqueuing(waiter, 'a')).toEqual([transaction]);
    await enqueuer.commit();
    expect(await stillEnqueuing(waiter, 'a')).toEqual([]);
    expect(await jobs(waiter)).toBe(1);
    expect(await rings()).toEqual([]);
  });

  test('is never gone before its job is visible, however close one looks', async () => {
    for (let round = 1; round <= 100; round++) {
      await enqueuer.begin();
      await insert(enqueuer, 'a');
      const commit = enqueuer.commit();
      while ((await stillEnqueuing(waiter, 'a')).length > 0);
      expect(await jobs(second)).toBe(round);
      await commit;
    }
  });

  test('is one of those that the waiter waits for, of many', async () => {
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    await other.begin();
    await insert(other, 'b');
    const before = [await transactionOf(enqueuer), await transactionOf(other)];
    const answer = await ask(waiter, 'a', 'b', 'c');
    expect(answer.enqueuing.toSorted()).toEqual(before.toSorted());
    expect((await ask(second, 'b')).enqueuing).toEqual(before.slice(1));
    await enqueuer.commit();
    expect(await stillEnqueuing(waiter, 'a', 'b', 'c')).toEqual(before.slice(1));
  });

  test('has another name than the next one of its session, which rings', async () => {
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    const { enqueuing: before } = await ask(waiter, 'a');
    await enqueuer.commit();
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    const now = await stillEnqueuing(waiter, 'a');
    expect(now).toHaveLength(1);
    expect(now).not.toEqual(before);
    await enqueuer.commit();
    expect(await rings()).toEqual(['a']);
  });
});

describe('a transaction that is rolled back', () => {
  test('rings nobody and leaves no lock, if somebody waits', async () => {
    await ask(waiter, 'a');
    await enqueuer.begin();
    await insert(enqueuer, 'a', 10);
    await enqueuer.rollback();
    expect(await rings()).toEqual([]);
    expect(await locksOf(enqueuer)).toBe(0);
    expect(await stillEnqueuing(waiter, 'a')).toEqual([]);
  });

  test('and if somebody began to wait in the middle of it', async () => {
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    expect((await ask(waiter, 'a')).enqueuing).toHaveLength(1);
    await enqueuer.rollback();
    expect(await stillEnqueuing(waiter, 'a')).toEqual([]);
    expect(await locksOf(enqueuer)).toBe(0);
    expect(await rings()).toEqual([]);
  });

  test('so does a session that is terminated', async () => {
    const doomed = await t.connect();
    await doomed.begin();
    await insert(doomed, 'a');
    expect((await ask(waiter, 'a')).enqueuing).toHaveLength(1);
    await t.observer.query('select pg_terminate_backend($1)', [doomed.pid]);
    await eventually(async () => expect(await stillEnqueuing(waiter, 'a')).toEqual([]));
    expect(await rings()).toEqual([]);
  });

  test('to a savepoint holds nothing and rings nobody', async () => {
    await enqueuer.begin();
    await enqueuer.query('savepoint s');
    await insert(enqueuer, 'a');
    expect((await ask(waiter, 'a')).enqueuing).toHaveLength(1);
    await insert(enqueuer, 'a');
    await enqueuer.query('rollback to s');
    expect(await stillEnqueuing(waiter, 'a')).toEqual([]);
    expect(await locksOf(enqueuer)).toBe(0);
    await enqueuer.commit();
    expect(await rings()).toEqual([]);
  });

  test('to a savepoint is still enqueuing, if it had enqueued before that', async () => {
    await enqueuer.begin();
    await insert(enqueuer, 'a');
    await enqueuer.query('savepoint s');
    await insert(enqueuer, 'a');
    await enqueuer.query('rollback to s');
    const transaction = await transactionOf(enqueuer);
    expect((await ask(waiter, 'a')).enqueuing).toEqual([transaction]);
    await enqueuer.commit();
    expect(await jobs(waiter)).toBe(1);
  });

  test('to a savepoint rings for what it enqueues after that', async () => {
    await ask(waiter, 'a', 'b');
    await enqueuer.begin();
    await enqueuer.query('savepoint s');
    await insert(enqueuer, 'b');
    await insert(enqueuer, 'a');
    await enqueuer.query('rollback to s');
    await insert(enqueuer, 'a');
    await enqueuer.commit();
    expect(await rings()).toEqual(['a']);
  });

  test('in no part keeps what its released savepoints held', async () => {
    await enqueuer.begin();
    await enqueuer.query('savepoint s');
    await insert(enqueuer, 'a');
    await enqueuer.query('release s');
    expect((await ask(waiter, 'a')).enqueuing).toHaveLength(1);
    await enqueuer.commit();
    expect(await stillEnqueuing(waiter, 'a')).toEqual([]);
  });
});

describe('whoever waits', () => {
  test('is rung for no more when it has let go', async () => {
    await ask(waiter, 'a', 'b');
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual(['a']);
    await waiter.run(letGo, undefined);
    await insert(enqueuer, 'a');
    await insert(enqueuer, 'b');
    expect(await rings()).toEqual([]);
    expect(await locksOf(waiter)).toBe(0);
  });

  test('lets go of all that it asked for, however often it asked', async () => {
    for (let asks = 0; asks < 3; asks++) await ask(waiter, 'a', 'b');
    await waiter.run(letGo, undefined);
    expect(await locksOf(waiter)).toBe(0);
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual([]);
  });

  test('is rung for though its neighbour let go, and the last one ends the rings', async () => {
    await ask(waiter, 'a');
    await ask(second, 'a');
    await waiter.run(letGo, undefined);
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual(['a']);
    await second.run(letGo, undefined);
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual([]);
  });

  test('is rung for no more when its session has ended', async () => {
    const doomed = await t.connect();
    await ask(doomed, 'a');
    await t.observer.query('select pg_terminate_backend($1)', [doomed.pid]);
    await eventually(async () => expect(await locksOf(doomed)).toBe(0));
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual([]);
  });

  test('gets its answer while hundreds of transactions of others hold nothing of its queues', async () => {
    await enqueuer.begin();
    await insertInto(enqueuer, 100);
    expect(await ask(waiter, 'a')).toEqual({ refused: 0, enqueuing: [] });
    expect((await ask(second, 'q1', 'q100')).enqueuing).toHaveLength(1);
  });
});

describe('a statement into more than 100 queues', () => {
  test('takes 100 locks and rings for the rest, since it can not be seen there', async () => {
    await enqueuer.begin();
    await insertInto(enqueuer, 130);
    expect(await locksOf(enqueuer)).toBe(100);
    await enqueuer.commit();
    const rung = await rings();
    expect(rung).toHaveLength(30);
    expect(new Set(rung).size).toBe(30);
  });

  test('is announced to every waiter: by a lock or by a ring', async () => {
    await enqueuer.begin();
    await insertInto(enqueuer, 130);
    const queues = Array.from({ length: 130 }, (_, n) => `q${n + 1}`);
    const seen: string[] = [];
    for (const queue of queues) {
      if ((await ask(waiter, queue)).enqueuing.length > 0) seen.push(queue);
    }
    await enqueuer.commit();
    const announced = [...seen, ...(await rings())];
    expect(announced.toSorted()).toEqual(queues.toSorted());
  });

  test('rings for all that somebody waits for', async () => {
    const queues = Array.from({ length: 130 }, (_, n) => `q${n + 1}`);
    expect(await ask(waiter, ...queues)).toEqual({ refused: 0, enqueuing: [] });
    await insertInto(enqueuer, 130);
    expect((await rings()).toSorted()).toEqual(queues.toSorted());
  });
});

describe('while an enqueuer is just looking whether anybody waits', () => {
  /** What its look does for some microseconds. */
  async function startLooking(session: Session, queue: string): Promise<void> {
    await session.query('select pg_advisory_lock(pgqueue.waiting_key($1))', [queue]);
  }
  async function stopLooking(session: Session, queue: string): Promise<void> {
    await session.query('select pg_advisory_unlock(pgqueue.waiting_key($1))', [queue]);
  }

  test('a waiter is refused, and asks again', async () => {
    await startLooking(other, 'a');
    expect(await ask(waiter, 'a')).toEqual({ refused: 1, enqueuing: [] });
    await stopLooking(other, 'a');
    expect(await ask(waiter, 'a')).toEqual({ refused: 0, enqueuing: [] });
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual(['a']);
  });

  test('a waiter gets the queues that nobody looks at, and lets go of all at once', async () => {
    await startLooking(other, 'a');
    expect((await ask(waiter, 'a', 'b')).refused).toBe(1);
    await insert(enqueuer, 'b');
    expect(await rings()).toEqual(['b']);
    await stopLooking(other, 'a');
    expect((await ask(waiter, 'a', 'b')).refused).toBe(0);
    await waiter.run(letGo, undefined);
    expect(await locksOf(waiter)).toBe(0);
  });

  test('another enqueuer does not wait, but rings', async () => {
    await startLooking(other, 'a');
    await insert(enqueuer, 'a');
    expect(await rings()).toEqual(['a']);
    expect(await locksOf(enqueuer)).toBe(0);
  });
});

// A cancel may come between any two steps of the trigger. A lock of the session that is left behind would let
// every other enqueuer ring for ever, and no worker could wait.
test('enqueues that are cancelled anywhere leave no lock behind', async () => {
  const random = seededRandom(SEED);
  let cancelled = 0;
  for (let round = 0; round < 300; round++) {
    await enqueuer.begin();
    await enqueuer.query(`set local statement_timeout = ${1 + Math.floor(random() * 5)}`);
    try {
      // Long enough for any machine, and nearly all of it is the trigger.
      await enqueuer.query(`do $do$ begin
        for n in 1..20 loop
          insert into pgqueue.jobs (kind, queue)
            select 'k', 'q' || q from generate_series(1, ${50 + Math.floor(random() * 50)}) as q;
        end loop;
      end $do$`);
    } catch (error) {
      expect(error).toMatchObject({ code: '57014' });
      cancelled += 1;
    }
    await enqueuer.rollback();
    const left = { seed: SEED, round, locks: await locksOf(enqueuer) };
    expect(left).toEqual({ ...left, locks: 0 });
  }
  expect(cancelled).toBeGreaterThan(200);
});
