import type { JobContext } from '../../lib/contracts/job.js';
import { eventually } from '../support/eventually.js';
import { Proxy } from '../support/proxy.js';
import { insertJobs, openStore, type TestStore } from '../support/store.js';
import { handler, TestWorker, untilJobs } from './worker.support.js';

// A commit whose answer is lost: nobody in the process knows whether the job is done. The row does.

let store: TestStore;
let proxy: Proxy;
let worker: TestWorker | undefined;

beforeAll(async () => {
  store = await openStore();
  await store.observer.query('create table pgqueue.writes (job_id text, attempt int)');
});
beforeEach(async () => {
  proxy = await Proxy.start(store.url);
});
afterEach(async () => {
  await worker?.stop();
  worker = undefined;
  await proxy.close();
  await store.observer.query('truncate pgqueue.jobs, pgqueue.done_jobs, pgqueue.writes');
});
afterAll(() => store.close());

const insert = () => `insert into "${store.schema}".writes values ($1, $2)`;

async function start(run: (job: JobContext) => Promise<unknown>, settings = {}): Promise<void> {
  worker = new TestWorker({ url: proxy.url, schema: store.schema }, [handler('k', run, settings)]);
  await worker.start();
}

const writes = () => store.observer.rows('select job_id, attempt from pgqueue.writes');

function write(job: JobContext): Promise<unknown> {
  return job.transaction((tx) => tx.query(insert(), [job.id, job.attempt]));
}

describe('a commit that took effect although its answer was lost', () => {
  test.each([
    [
      'lets that pass',
      (_error: unknown): void => {
        throw _error;
      },
    ],
    ['hides that', () => {}],
  ])('is done, once, when the handler %s', async (_what, react) => {
    const codes: unknown[] = [];
    let runs = 0;
    await start(async (job) => {
      runs += 1;
      const lost = proxy.loseAnswerWith('COMMIT');
      await write(job).catch((error: { code: unknown }) => {
        codes.push(error.code);
        react(error);
      });
      await lost;
    });
    const ids = await insertJobs(store.observer, 1);
    await untilJobs(store.observer, ids, { status: 'done', attempts: 1 });
    await eventually(() => expect(codes).toEqual(['OUTCOME_UNKNOWN']));
    // The worker has been answered, and runs nothing again.
    await eventually(() => expect(worker?.log.matching(/failed; due again/)).toHaveLength(1));
    const [next] = await insertJobs(store.observer, 1);
    await untilJobs(store.observer, [next ?? ''], { status: 'done' });
    expect(runs).toBe(2);
    expect(await writes()).toHaveLength(2);
  });

  test('leaves nothing pending where no history is kept', async () => {
    let runs = 0;
    await start(
      async (job) => {
        runs += 1;
        void proxy.loseAnswerWith('COMMIT');
        await write(job);
      },
      { keepDone: false },
    );
    await insertJobs(store.observer, 1);
    await eventually(() => expect(worker?.log.matching(/nothing was stored/)).toHaveLength(1));
    expect(await store.observer.rows('select from pgqueue.jobs')).toEqual([]);
    expect(runs).toBe(1);
    expect(await writes()).toHaveLength(1);
  });
});

test('a commit that came to nothing is a failed attempt, even when the handler hides the error', async () => {
  // The server ends the session in the middle of the first commit.
  await store.observer.query(`
    create function pgqueue.die() returns trigger language plpgsql as $fn$
    begin
      if new.attempt = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;
      return null;
    end $fn$;
    create constraint trigger die after insert on pgqueue.writes deferrable initially deferred
      for each row execute function pgqueue.die()`);
  await start(async (job) => {
    await write(job).catch(() => {});
    return 'as if all were well';
  });
  const ids = await insertJobs(store.observer, 1);
  await untilJobs(store.observer, ids, { status: 'done', attempts: 2 });
  expect(await writes()).toEqual([{ job_id: ids[0], attempt: 2 }]);
});
