import { PgQueueError, type PgQueueOptions } from 'nestjs-pg-queue';
import { resolveOptions } from '../../lib/contracts/resolve-options.js';

const connectionString = 'postgres://app:s3cret@localhost:5432/app';
const pool = { connect: () => Promise.reject(new Error('not used')), options: {} };

function errorOf(options: unknown): PgQueueError {
  try {
    resolveOptions(options as PgQueueOptions);
  } catch (error) {
    expect(error).toBeInstanceOf(PgQueueError);
    return error as PgQueueError;
  }
  throw new Error('The options were taken');
}

describe('defaults', () => {
  it('are all there is to say beside the connection', () => {
    expect(resolveOptions({ connectionString })).toEqual({
      connectionString,
      pool: undefined,
      maxConnections: 10,
      schema: 'pgqueue',
      migrate: 'auto',
      worker: {
        name: expect.stringMatching(/:\d+$/),
        concurrency: 20,
        queues: undefined,
        lease: 30_000,
        heartbeat: 10_000,
        pollInterval: 2_000,
        shutdownGrace: 10_000,
      },
      listen: { connectionString: undefined },
      keepDone: 7 * 86_400_000,
      keepFailed: 90 * 86_400_000,
      limits: [],
      retryable: undefined,
    });
  });

  it('poll more often without a listener, and beat three times a lease', () => {
    const { worker } = resolveOptions({ connectionString, listen: false, worker: { lease: '9s' } });
    expect(worker).toMatchObject({ pollInterval: 500, lease: 9_000, heartbeat: 3_000 });
  });

  it('stand for options that are undefined', () => {
    const names = [
      'maxConnections',
      'schema',
      'migrate',
      'worker',
      'listen',
      'keepDone',
      'retryable',
    ];
    const options = Object.fromEntries(names.map((name) => [name, undefined]));
    expect(resolveOptions({ connectionString, ...options })).toEqual(
      resolveOptions({ connectionString }),
    );
  });
});

describe('right options are taken as they are', () => {
  it.each<[string, Partial<PgQueueOptions>, object]>([
    ['no worker', { worker: false }, { worker: false }],
    ['an odd schema', { schema: 'My "jobs"; drop' }, { schema: 'My "jobs"; drop' }],
    ['a schema of 63 bytes', { schema: 'ü'.repeat(31) }, { schema: 'ü'.repeat(31) }],
    ['migrate: check', { migrate: 'check' }, { migrate: 'check' }],
    ['migrate: false', { migrate: false }, { migrate: false }],
    ['no listener', { listen: false }, { listen: undefined }],
    ['a direct connection', { listen: { connectionString } }, { listen: { connectionString } }],
    ['no history', { keepDone: false, keepFailed: false }, { keepDone: false, keepFailed: false }],
    ['durations as text', { keepDone: '1.5h', keepFailed: '2d' }, { keepDone: 5_400_000 }],
    ['a history of no length', { keepDone: 0 }, { keepDone: 0 }],
  ])('%s', (_what, options, resolved) => {
    expect(resolveOptions({ connectionString, ...options })).toMatchObject(resolved);
  });

  it('queues as a list, and with slots of their own', () => {
    const queues = (worker: PgQueueOptions['worker']) => {
      const resolved = resolveOptions({ connectionString, worker }).worker;
      return resolved === false ? [] : [...(resolved.queues ?? [])];
    };
    expect(queues({ queues: ['mail', 'sms'], concurrency: 3 })).toEqual([
      ['mail', 3],
      ['sms', 3],
    ]);
    expect(queues({ queues: { mail: { concurrency: 1 }, sms: {} }, concurrency: 3 })).toEqual([
      ['mail', 1],
      ['sms', 3],
    ]);
  });

  it.each([
    'postgresql://localhost/app',
    'postgres://user:p%40ss@host:6432/app?sslmode=require',
    'postgres://user:with space@host/app',
    'postgres://user:password@/app?host=/var/run/postgresql',
    '/var/run/postgresql app',
    'socket:/var/run/postgresql?db=app',
  ])('the connection string %s', (connectionString) => {
    expect(resolveOptions({ connectionString })).toMatchObject({ connectionString });
  });
});

describe('a wrong option is an error that names it', () => {
  it.each<[string, unknown, string]>([
    ['neither a connection nor a pool', { connectionString: undefined }, 'connectionString'],
    ['an empty connection string', { connectionString: '' }, 'connectionString'],
    ['a connection string that is no string', { connectionString: {} }, 'connectionString'],
    ['a connection string that is no URL', { connectionString: 's3cret' }, 'connectionString'],
    [
      'a port that is none',
      { connectionString: 'postgres://u:s3cret@h:99999/d' },
      'connectionString',
    ],
    ['a pool that is none', { pool: {} }, 'pool'],
    ['null for a pool', { pool: null }, 'pool'],
    ['no connections', { maxConnections: 0 }, 'maxConnections'],
    ['half a connection', { maxConnections: 2.5 }, 'maxConnections'],
    ['an empty schema', { schema: '' }, 'schema'],
    ['a schema of 64 bytes', { schema: 'ü'.repeat(32) }, 'schema'],
    ['a schema with NUL', { schema: 'a\0' }, 'schema'],
    ['a reserved schema', { schema: 'pg_jobs' }, 'schema'],
    ['the information schema', { schema: 'information_schema' }, 'schema'],
    ['a schema that is no text', { schema: 7 }, 'schema'],
    ['migrate: true', { migrate: true }, 'migrate'],
    ['migrate: yes', { migrate: 'yes' }, 'migrate'],
    ['worker: true', { worker: true }, 'worker'],
    ['worker: null', { worker: null }, 'worker'],
    ['worker as a list', { worker: [] }, 'worker'],
    ['a worker without a name', { worker: { name: '' } }, 'worker.name'],
    ['a worker with NUL in its name', { worker: { name: 'a\0' } }, 'worker.name'],
    ['no slots', { worker: { concurrency: 0 } }, 'worker.concurrency'],
    ['slots as text', { worker: { concurrency: '5' } }, 'worker.concurrency'],
    ['endless slots', { worker: { concurrency: Infinity } }, 'worker.concurrency'],
    ['no queues', { worker: { queues: [] } }, 'worker.queues'],
    ['queues as text', { worker: { queues: 'mail' } }, 'worker.queues'],
    ['queues: null', { worker: { queues: null } }, 'worker.queues'],
    ['a queue without a name', { worker: { queues: [''] } }, 'worker.queues'],
    ['a queue that is no text', { worker: { queues: [7] } }, 'worker.queues'],
    [
      'a queue with no slots',
      { worker: { queues: { mail: { concurrency: 0 } } } },
      'worker.queues.mail.concurrency',
    ],
    [
      'a queue with a number for options',
      { worker: { queues: { mail: 5 } } },
      'worker.queues.mail',
    ],
    [
      'a queue with a misspelt option',
      { worker: { queues: { mail: { concurency: 5 } } } },
      'concurency',
    ],
    ['a lease that is no duration', { worker: { lease: 'long' } }, 'worker.lease'],
    ['a lease of 100 ms', { worker: { lease: 100 } }, 'worker.lease'],
    [
      'a heartbeat slower than half of the lease',
      { worker: { lease: '10s', heartbeat: '6s' } },
      'worker.heartbeat',
    ],
    ['no heartbeat', { worker: { heartbeat: 0 } }, 'worker.heartbeat'],
    ['a negative poll interval', { worker: { pollInterval: -1 } }, 'worker.pollInterval'],
    ['a poll interval of 1 ms', { worker: { pollInterval: 1 } }, 'worker.pollInterval'],
    ['an endless grace', { worker: { shutdownGrace: Infinity } }, 'worker.shutdownGrace'],
    ['a misspelt worker option', { worker: { concurency: 5 } }, 'concurency'],
    ['listen: null', { listen: null }, 'listen'],
    ['listen as a bare connection string', { listen: 'postgres://u:s3cret@h/d' }, 'listen'],
    ['listen without a connection string', { listen: {} }, 'listen.connectionString'],
    [
      'listen with a connection string that is no URL',
      { listen: { connectionString: 's3cret' } },
      'listen.connectionString',
    ],
    ['listen with a misspelt option', { listen: { connectionString, ssl: true } }, 'ssl'],
    ['keepDone: true', { keepDone: true }, 'keepDone'],
    ['keepDone: null', { keepDone: null }, 'keepDone'],
    ['a keepDone that is no duration', { keepDone: '7 days' }, 'keepDone'],
    ['a keepFailed that is no number', { keepFailed: Number.NaN }, 'keepFailed'],
    ['a rule that is no function', { retryable: true }, 'retryable'],
    ['a misspelt option', { keepdone: '7d' }, 'keepdone'],
    ['an extra among the options', { isGlobal: false }, 'isGlobal'],
  ])('%s', (_what, options, named) => {
    const error = errorOf({ connectionString, ...(options as object) });
    expect(error.code).toBe('INVALID_OPTION');
    expect(error.message).toContain(`\`${named}\``);
    expect(error.message).not.toContain('s3cret');
  });

  it('a pool without options, where the queue needs connections of its own', () => {
    const bare = { connect: pool.connect };
    expect(errorOf({ pool: bare }).message).toContain('`connectionString`');
    expect(errorOf({ pool: bare, worker: false }).message).toContain('`connectionString`');
    expect(resolveOptions({ pool: bare, connectionString }).pool).toBe(bare);
    expect(resolveOptions({ pool }).pool).toBe(pool);
  });

  it.each([undefined, null, 'postgres://u:s3cret@h/d', 7])('options that are %p', (options) => {
    const error = errorOf(options);
    expect(error.code).toBe('INVALID_OPTION');
    expect(error.message).not.toContain('s3cret');
  });
});
