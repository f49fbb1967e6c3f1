import { migrate } from '../../lib/store/migrator.js';
import { done, exchange, freshName, insertJobs, openStore, startWorker } from '../support/store.js';

test.each([
  'Capitals, spaces and ünï–çødé',
  'quotes " and \' and "" and \'\'',
  "back\\slash and ' quote",
  '$fn$ and $fn1$',
  'lines\nof -- a comment',
  'pgqueue.jobs; pgqueue',
  '$1 and $& and $$',
])('a job goes all its way in a schema called %j', async (name) => {
  const schema = `${name} ${freshName().slice(0, 10)}`;
  const odd = await openStore({ schema });
  try {
    const [id = '', cancelled = '', failed = ''] = await insertJobs(odd.observer, 3);
    await odd.store.cancel(cancelled);
    const worker = await startWorker(odd.observer);
    const { jobs } = await exchange(odd.observer, { worker, want: 5 });
    expect(jobs.map((job) => job.id)).toEqual([id, failed]);
    await exchange(odd.observer, {
      worker,
      settlements: [
        done({ id, leaseNo: 1 }, { result: '1' }),
        { id: failed, leaseNo: 1, action: 'fail', error: { name: 'E', message: 'm' } },
      ],
    });
    expect(await odd.store.getJob(id)).toMatchObject({ status: 'done', result: 1 });
    expect(await odd.store.retryMany([failed])).toMatchObject([{ outcome: 'retried' }]);
    expect(await odd.observer.value(`select pgqueue.enqueue('k')`)).toEqual(expect.any(String));
    expect(await odd.store.rescue(true, 10)).toEqual([]);
    expect(await odd.store.sortByHandler(10)).toEqual([]);
    await odd.store.retire(worker, [], 10_000);
    expect(await odd.store.heartbeat(worker, 1_000, 10_000)).toMatchObject({ alive: false });
    // A second look at the schema finds it up to date, and the days where they are.
    await migrate(odd.database);
    await odd.store.dropOldDays(0);
  } finally {
    await odd.close();
  }
});
