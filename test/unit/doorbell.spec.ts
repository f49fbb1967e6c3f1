import { Logger } from '@nestjs/common';
import type { Database } from '../../lib/store/database.js';
import { Listener, type ListenerEvents } from '../../lib/store/listener.js';
import { enqueuing, letGo, wait } from '../../lib/store/statements/workers.js';
import { Doorbell } from '../../lib/worker/doorbell.js';
import { eventually } from '../support/eventually.js';

const { jest } = import.meta;

const NAMES = new Map<unknown, string>([
  [wait, 'wait'],
  [enqueuing, 'enqueuing'],
  [letGo, 'let go'],
]);

afterEach(() => jest.restoreAllMocks());

/** A doorbell of the queue `a` whose session is up, and what the database answers to each `wait`. */
function startBell(answers: readonly { refused: number; enqueuing: string[] }[]) {
  const asked: string[] = [];
  let rings = 0;
  let waits = 0;
  let events: ListenerEvents | undefined;
  jest.spyOn(Listener.prototype, 'start').mockImplementation(function (this: Listener) {
    events = this['events'];
  });
  jest.spyOn(Listener.prototype, 'ask').mockImplementation(async (statement: unknown) => {
    asked.push(NAMES.get(statement) ?? '?');
    if (statement === enqueuing) return [];
    return statement === wait ? (answers[waits++] ?? answers.at(-1)) : undefined;
  });
  const heard = {
    ring: () => void (rings += 1),
    settingsChanged: () => {},
    cancel: () => {},
  };
  const bell = new Doorbell({} as Database, ['a'], heard, new Logger());
  bell.start();
  events?.up(false);
  rings = 0;
  return {
    bell,
    asked,
    rings: () => rings,
    lieDown: () => bell.after({ found: 0, hasSpare: true }),
    ring: (count: number) => {
      for (let i = 0; i < count; i += 1) events?.ring('a');
    },
  };
}

/** Longer than the pause before somebody who was refused asks again. */
async function untilAskedAgain(): Promise<void> {
  const until = performance.now() + 20;
  while (performance.now() < until) await new Promise(setImmediate);
}

test('a worker that waits looks once more', async () => {
  const { bell, asked, rings, lieDown } = startBell([{ refused: 0, enqueuing: [] }]);
  lieDown();
  expect(bell.isWaiting).toBe(false);
  await eventually(() => expect(bell.isWaiting).toBe(true));
  expect(asked).toEqual(['wait']);
  expect(rings()).toBe(1);
});

test('it does so when those who were enqueuing have ended', async () => {
  const { bell, asked, rings, lieDown } = startBell([{ refused: 0, enqueuing: ['3/17'] }]);
  lieDown();
  await eventually(() => expect(bell.isWaiting).toBe(true));
  expect(asked).toEqual(['wait', 'enqueuing']);
  expect(rings()).toBe(1);
});

test('a refusal is no answer: it asks again', async () => {
  const { bell, asked, lieDown } = startBell([
    { refused: 1, enqueuing: [] },
    { refused: 0, enqueuing: [] },
  ]);
  lieDown();
  await eventually(() => expect(bell.isWaiting).toBe(true));
  expect(asked).toEqual(['wait', 'wait']);
});

test('refused again and again, it lets go of what it got and looks at the table', async () => {
  const { bell, asked, rings, lieDown } = startBell([{ refused: 1, enqueuing: [] }]);
  lieDown();
  await eventually(() => expect(asked).toContain('let go'));
  expect(asked).toEqual([...Array<string>(20).fill('wait'), 'let go']);
  expect(rings()).toBe(1);
  expect(bell.isWaiting).toBe(false);
});

test('a worker that got up before it asks again does not ask: it would hold what it let go', async () => {
  const { bell, asked, lieDown, ring } = startBell([{ refused: 1, enqueuing: [] }]);
  lieDown();
  await new Promise(setImmediate); // it was refused, and pauses
  ring(30);
  await untilAskedAgain();
  expect(asked).toEqual(['wait', 'let go']);
  expect(bell.isWaiting).toBe(false);
});
