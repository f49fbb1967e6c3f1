import { CancelWatch } from '../../lib/worker/cancel-watch.js';
import { eventually } from '../support/eventually.js';

const quiet = { debug: () => {} };

/** A watch over jobs of which those in `held` run here, and what it cancelled. */
function watch(held: Set<string>, requests: () => Promise<{ id: string; leaseNo: number }[]>) {
  const cancelled: string[] = [];
  const jobs = {
    allIds: () => [...held].map((key) => key.split(':')[0] ?? ''),
    cancel: ({ id, leaseNo }: { id: string; leaseNo: number }) => {
      const key = `${id}:${leaseNo}`;
      if (held.has(key)) cancelled.push(key);
      return held.has(key);
    },
  };
  return {
    cancelled,
    cancels: new CancelWatch({ cancelRequests: requests }, jobs, () => 5, quiet),
  };
}

const nothing = () => Promise.resolve([]);

test('a notification cancels the attempt that it names, and no other of the same job', async () => {
  const { cancels, cancelled } = watch(new Set(['7:2', '8:1']), nothing);
  await cancels.heard('7:2');
  await cancels.heard('7:1');
  await cancels.heard('9:1');
  await cancels.heard('rubbish');
  await cancels.heard('');
  expect(cancelled).toEqual(['7:2']);
});

test('a notification that comes before the answer of the claim is not lost', async () => {
  const held = new Set<string>();
  const { cancels, cancelled } = watch(held, nothing);
  const heard = cancels.heard('7:1');
  held.add('7:1');
  await heard;
  expect(cancelled).toEqual(['7:1']);
});

test('it looks again and again, also after a look that failed, and asks for nothing when nothing runs', async () => {
  const held = new Set<string>();
  let looks = 0;
  const { cancels, cancelled } = watch(held, () => {
    looks += 1;
    if (looks === 1) return Promise.reject(new Error('no connection'));
    return Promise.resolve([{ id: '7', leaseNo: 1 }]);
  });
  cancels.start();
  await cancels.heard('8:1'); // takes longer than several looks would
  expect(looks).toBe(0);
  held.add('7:1');
  await eventually(() => expect(cancelled).toContain('7:1'));
  await cancels.stop();
  const before = looks;
  await cancels.heard('8:1');
  expect(looks).toBe(before);
});
