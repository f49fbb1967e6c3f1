import type { Settlement } from '../../lib/store/statements/exchange.js';
import { Outbox } from '../../lib/worker/outbox.js';

const settlement = (id: string): Settlement => ({ id, leaseNo: 1, action: 'release' });
const ids = (settlements: readonly Settlement[]) => settlements.map(({ id }) => id);

test('settlements leave in the order they came, as many as are asked for', () => {
  const outbox = new Outbox();
  outbox.add('w', settlement('1'), settlement('2'));
  outbox.add('w', settlement('3'));
  expect(outbox.size).toBe(3);
  expect(ids(outbox.take('w', 2))).toEqual(['1', '2']);
  expect(ids(outbox.take('w', 2))).toEqual(['3']);
  expect(outbox.take('w', 2)).toEqual([]);
  expect(outbox.size).toBe(0);
});

test('what was taken and not confirmed is added again, and nothing is lost', () => {
  const outbox = new Outbox();
  outbox.add('w', settlement('1'), settlement('2'));
  const taken = outbox.take('w', 500);
  outbox.add('w', settlement('3'));
  outbox.add('w', ...taken);
  expect(new Set(outbox.jobIds('w'))).toEqual(new Set(['1', '2', '3']));
});

test('each worker id has its own, and is named while it has any', () => {
  const outbox = new Outbox();
  outbox.add('old', settlement('1'));
  outbox.add('new', settlement('2'));
  expect(outbox.workerIds()).toEqual(['old', 'new']);
  expect(outbox.jobIds('old')).toEqual(['1']);
  expect(outbox.jobIds('nobody')).toEqual([]);
  outbox.take('old', 1);
  expect(outbox.workerIds()).toEqual(['new']);
});

test('what is set aside is not sent, but known, until it is brought back', () => {
  const outbox = new Outbox();
  outbox.add('w', settlement('1'));
  outbox.setAside('w', settlement('2'));
  expect(outbox.jobIds('w')).toEqual(['1', '2']);
  expect(outbox.size).toBe(1);
  expect(ids(outbox.take('w', 500))).toEqual(['1']);
  expect(outbox.workerIds()).toEqual([]);
  outbox.bringBack();
  outbox.bringBack();
  expect(ids(outbox.take('w', 500))).toEqual(['2']);
  expect(outbox.jobIds('w')).toEqual([]);
});

test('the caller keeps its array', () => {
  const outbox = new Outbox();
  const mine = [settlement('1')];
  outbox.add('w', ...mine);
  outbox.add('w', settlement('2'));
  expect(ids(mine)).toEqual(['1']);
});
