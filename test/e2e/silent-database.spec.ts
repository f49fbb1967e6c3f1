import { DATABASE_URL, endApps, on, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { Proxy } from '../support/proxy.js';

let proxy: Proxy;
beforeEach(async () => {
  proxy = await Proxy.start(DATABASE_URL);
});
afterEach(async () => {
  await endApps();
  await proxy.close();
});

test('B27: close returns within the grace and a bound, although the database has fallen silent', async () => {
  const app = await startWith([on('k', () => {})], {
    connectionString: proxy.url,
    worker: { shutdownGrace: '1s', pollInterval: '20ms' },
  });
  const { id } = await app.queue.enqueue('k');
  await eventually(async () => expect(await app.status(id)).toBe('done'));
  proxy.stallAll();

  const began = performance.now();
  await app.close();
  // No job runs, so the grace is not needed; the farewell, the listener and the pools have their limits.
  expect(performance.now() - began).toBeLessThan(4_000);
  await expect(app.queue.enqueue('k')).rejects.toMatchObject({ code: 'CLOSED' });
});
