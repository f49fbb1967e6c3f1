import { explore, type Cast, type Protocol } from './doorbell-model.support.js';

/** As it is: pgqueue.ring for the enqueuer, worker/doorbell for the worker. */
const PROTOCOL: Protocol = {
  // The server makes a commit visible, then lets go of its locks, then sends its notifications.
  enqueuer: ['takes E', 'tries W', 'gives W back', 'commits', 'releases E', 'rings'],
  worker: ['looks', 'takes W', 'reads E', 'awaits them', 'looks again', 'sleeps'],
};

const CASTS: [string, Cast][] = [
  ['2 enqueuers and a worker', { enqueuers: 2, workers: 1 }],
  ['2 enqueuers and 2 workers', { enqueuers: 2, workers: 2 }],
  ['3 enqueuers and a worker', { enqueuers: 3, workers: 1 }],
  [
    '2 enqueuers with 2 transactions each and a worker',
    { enqueuers: 2, transactions: 2, workers: 1 },
  ],
];

describe('in no interleaving does a worker sleep beside a committed job', () => {
  test.each(CASTS)('of %s', (_, cast) => {
    const { rests, counterexample } = explore(PROTOCOL, cast);
    expect(counterexample).toBeUndefined();
    expect(rests).toBeGreaterThan(0);
  });
});

describe('a job can be left lying', () => {
  const flaws: [string, Partial<Protocol>][] = [
    [
      'if enqueuers look at W before they take E',
      { enqueuer: ['tries W', 'gives W back', 'takes E', 'commits', 'releases E', 'rings'] },
    ],
    [
      'if E is released before the commit is visible',
      { enqueuer: ['takes E', 'tries W', 'gives W back', 'releases E', 'commits', 'rings'] },
    ],
    [
      'if a ring can be heard before the commit is visible',
      { enqueuer: ['takes E', 'tries W', 'gives W back', 'rings', 'commits', 'releases E'] },
    ],
    [
      'if workers do not look again after they took W',
      { worker: ['looks', 'takes W', 'reads E', 'awaits them', 'sleeps'] },
    ],
    [
      'if workers do not wait for those who held E',
      { worker: ['looks', 'takes W', 'reads E', 'looks again', 'sleeps'] },
    ],
    [
      'if workers look again before they wait for those who held E',
      { worker: ['looks', 'takes W', 'reads E', 'looks again', 'awaits them', 'sleeps'] },
    ],
    [
      'if workers read E before they take W',
      { worker: ['looks', 'reads E', 'takes W', 'awaits them', 'looks again', 'sleeps'] },
    ],
    [
      'if workers take a refusal of W for an answer',
      { worker: ['looks', 'asks for W once', 'reads E', 'awaits them', 'looks again', 'sleeps'] },
    ],
    [
      'if workers forget the rings that came while they lay down',
      {
        worker: [
          'looks',
          'takes W',
          'reads E',
          'awaits them',
          'looks again',
          'forgets rings',
          'sleeps',
        ],
      },
    ],
  ];
  test.each(flaws)('%s', (_, flaw) => {
    const { counterexample } = explore({ ...PROTOCOL, ...flaw }, { enqueuers: 2, workers: 1 });
    expect(counterexample).toBeDefined();
  });
});
