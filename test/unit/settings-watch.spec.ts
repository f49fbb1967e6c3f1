import type { QueueSettings } from '../../lib/store/statements/queues.js';
import { SettingsWatch } from '../../lib/worker/settings-watch.js';
import { eventually } from '../support/eventually.js';
import { signal, type Signal } from '../support/signal.js';
import { Lines } from '../worker/worker.support.js';

const HOUR = 3_600_000;
const settings = (...pausedQueues: string[]): QueueSettings => ({
  pausedQueues,
  pausedKinds: [],
  concurrency: [],
});

/** A watch of a database that answers when it is told what. */
function startWatch(interval = HOUR) {
  const asked: Signal<QueueSettings | Error>[] = [];
  const heard: [string[], boolean][] = [];
  const store = {
    queueSettings: async () => {
      const answer = signal<QueueSettings | Error>();
      asked.push(answer);
      const settled = await answer.happened;
      if (settled instanceof Error) throw settled;
      return settled;
    },
  };
  const told = (read: QueueSettings, haveChanged: boolean) =>
    heard.push([[...read.pausedQueues], haveChanged]);
  const watch = new SettingsWatch(store, ['q'], interval, told, new Lines());
  return { watch, asked, heard };
}

test('tells what it reads, and whether that differs from the time before', async () => {
  const { watch, asked, heard } = startWatch();
  for (const [index, paused] of [[], [], ['q'], ['q'], []].entries()) {
    watch.read();
    await eventually(() => expect(asked).toHaveLength(index + 1));
    asked[index]?.fire(settings(...paused));
    await eventually(() => expect(heard).toHaveLength(index + 1));
  }
  expect(heard).toEqual([
    [[], false],
    [[], false],
    [['q'], true],
    [['q'], false],
    [[], true],
  ]);
  await watch.stop();
});

test('reads again after a read that may be older than the wish, once for all wishes', async () => {
  const { watch, asked, heard } = startWatch();
  watch.read();
  watch.read();
  watch.read();
  asked[0]?.fire(settings());
  await eventually(() => expect(asked).toHaveLength(2));
  asked[1]?.fire(settings('q'));
  await eventually(() => expect(heard).toHaveLength(2));
  expect(asked).toHaveLength(2);
  await watch.stop();
});

test('reads at its interval, and goes on after a failure', async () => {
  const { watch, asked, heard } = startWatch(5);
  watch.read();
  asked[0]?.fire(new Error('away'));
  await eventually(() => expect(asked).toHaveLength(2));
  asked[1]?.fire(settings('q'));
  await eventually(() => expect(asked).toHaveLength(3));
  expect(heard).toEqual([[['q'], false]]);
  asked[2]?.fire(settings());
  await watch.stop();
});

test('tells nothing after its end, and does not read', async () => {
  const { watch, asked, heard } = startWatch();
  watch.read();
  const stopped = watch.stop();
  asked[0]?.fire(settings('q'));
  await stopped;
  watch.read();
  expect(heard).toEqual([]);
  expect(asked).toHaveLength(1);
});
