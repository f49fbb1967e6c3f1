import { done, draft, exchange, openStore, startWorker, type TestStore } from '../support/store.js';
import type { Settlement } from '../../lib/store/statements/exchange.js';

let t: TestStore;

beforeAll(async () => {
  t = await openStore();
});
afterAll(() => t.close());

test('B10: fifty enqueues of one key at a time, against a worker that settles it at once, all get the id of a job that existed', async () => {
  const until = performance.now() + 3_000;
  const settled = new Set<string>();
  const claimant = await t.connect();
  const worker = await startWorker(claimant);
  let enqueuing = true;

  const work = async (): Promise<void> => {
    let settlements: Settlement[] = [];
    for (;;) {
      const last = !enqueuing;
      const { jobs, answers } = await exchange(claimant, { worker, settlements, want: 10 });
      expect(answers).toEqual({});
      // Never two live rows of the key.
      expect(jobs.length).toBeLessThanOrEqual(1);
      for (const { id } of settlements) settled.add(id);
      settlements = jobs.map((job) => done(job));
      if (last && jobs.length === 0) return;
    }
  };
  const answered = new Set<string>();
  let inserted = 0;
  let duplicates = 0;
  const enqueue = async (): Promise<void> => {
    while (performance.now() < until) {
      const [row] = await t.store.enqueueMany([draft({ dedupeKey: 'K' })]);
      expect(row?.id).toEqual(expect.any(String));
      answered.add(row?.id as string);
      if (row?.inserted) inserted += 1;
      else duplicates += 1;
    }
  };
  const working = work();
  await Promise.all(Array.from({ length: 50 }, enqueue));
  enqueuing = false;
  await working;

  expect(duplicates).toBeGreaterThan(50);
  expect(inserted).toBeGreaterThan(5);
  // Every id that was answered is that of a row which was inserted once and settled once.
  expect(answered).toEqual(settled);
  expect(settled.size).toBe(inserted);
  expect(await t.observer.rows('select from pgqueue.jobs')).toEqual([]);
});
