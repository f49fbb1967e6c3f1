import pg from 'pg';
import { eventually } from '../support/eventually.js';
import { endApps, on, startWith } from '../support/app.js';

const { jest } = import.meta;

afterEach(endApps);

test('a worker with nothing to do sends next to nothing', async () => {
  const app = await startWith([on('note', () => {})]);
  const { id } = await app.queue.enqueue('note');
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  const spy = jest.spyOn(pg.Client.prototype, 'query');
  try {
    const since = performance.now();
    // What begins a life is over within the first of the two seconds.
    let before = 0;
    await eventually(() => {
      before = spy.mock.calls.length;
      expect(performance.now()).toBeGreaterThan(since + 1_000);
    });
    await eventually(() => expect(performance.now()).toBeGreaterThan(since + 2_000));
    expect(spy.mock.calls.length - before).toBeLessThan(10);
  } finally {
    spy.mockRestore();
  }
});
