import { setTimeout as pause } from 'node:timers/promises';
import { within } from '../../lib/contracts/within.js';
import { Listener } from '../../lib/store/listener.js';
import { letGo, wait } from '../../lib/store/statements/workers.js';
import { endApps, freshSchema, on, startWith, type TestApp } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { seededRandom } from '../support/random.js';
import { Session, serverUrl } from '../support/store.js';

/** Repeat a run with SEED=… */
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000);
/** The full run: ENQUEUES=100000 */
const ENQUEUES = Number(process.env.ENQUEUES ?? 20_000);
/** Of each queue. */
const CONNECTIONS = 3;
const QUEUES = ['a', 'b', 'c', 'd'];
/** With four slots a round takes its worker long enough to let go of the doorbell, as often as not. */
const JOB_MS = 4;
/** A round takes tenths of a second; a worker that sleeps looks again after 45 minutes at the earliest. */
const LOST_AFTER_MS = 10_000;

const { jest } = import.meta;
afterEach(endApps);

test(
  `no wake-up is lost while workers lie down and get up, in ${ENQUEUES} enqueues`,
  async () => {
    process.stdout.write(`The load has the seed ${SEED}\n`);
    const ask = jest.spyOn(Listener.prototype, 'ask');
    const schema = freshSchema();
    const crews = await Promise.all(QUEUES.map((queue, n) => Crew.start(schema, queue, SEED + n)));
    try {
      await Promise.all(crews.map((crew) => crew.work(ENQUEUES / QUEUES.length)));
    } finally {
      await Promise.all(crews.map((crew) => crew.stop()));
    }

    const [{ app }] = crews as [Crew];
    await eventually(async () => expect(await app.sql('select id from pgqueue.jobs')).toEqual([]));
    const [{ done }] = await app.sql('select count(*)::int as done from pgqueue.done_jobs');
    expect(done).toBe(crews.reduce((sum, { committed }) => sum + committed, 0));

    const asked = (statement: unknown) => ask.mock.calls.filter(([it]) => it === statement).length;
    const rounds = crews.reduce((sum, crew) => sum + crew.rounds, 0);
    const said = `${done} jobs in ${rounds} rounds; lay down ${asked(wait)}, got up ${asked(letGo)} times`;
    process.stdout.write(`${said}\n`);
    // That is what the load is for.
    expect(asked(wait)).toBeGreaterThan(ENQUEUES / 200);
    expect(asked(letGo)).toBeGreaterThan(ENQUEUES / 200);
  },
  60_000 + ENQUEUES * 3,
);

/**
 * A queue with one worker, and the connections that enqueue into it. They do so in rounds: some transactions at
 * once, then nothing until every job has run, so that no later ring can make good for one that was lost.
 */
class Crew {
  committed = 0;
  rounds = 0;
  private enqueued = 0;

  private constructor(
    readonly app: TestApp,
    private readonly queue: string,
    private readonly runs: Runs,
    private readonly sessions: readonly Session[],
    private readonly random: () => number,
  ) {}

  static async start(schema: string, queue: string, seed: number): Promise<Crew> {
    const runs = new Runs();
    const work = on('work', async (_payload, job) => {
      await pause(JOB_MS);
      runs.add(job.id);
    });
    const worker = { queues: [queue], concurrency: 4, pollInterval: '1h' } as const;
    const app = await startWith([work], { schema, worker });
    const sessions = await Promise.all(
      Array.from({ length: CONNECTIONS }, () =>
        Session.open({ connectionString: serverUrl() }, schema),
      ),
    );
    return new Crew(app, queue, runs, sessions, seededRandom(seed));
  }

  async work(enqueues: number): Promise<void> {
    const [first, ...others] = this.sessions as [Session, ...Session[]];
    while (this.enqueued < enqueues) {
      this.rounds += 1;
      const jobs = await Promise.all([
        this.layMany(first),
        ...others.map((it) => this.layLater(it)),
      ]);
      await this.untilRun(jobs.flat());
      // A gap of any length finds the worker in any state.
      await pause(this.upTo(6));
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.sessions.map((session) => session.close()));
  }

  /** Enough for the worker to let go of the doorbell, as a rule. */
  private layMany(session: Session): Promise<string[]> {
    return this.transaction(session, this.upTo(50), 0);
  }

  /** Begins and ends anywhere around the time when the worker lies down again. */
  private async layLater(session: Session): Promise<string[]> {
    await pause(this.upTo(50));
    const length = this.random() < 0.7 ? 1 : Math.ceil(50 * this.random() ** 2);
    return this.transaction(session, length, this.random() < 0.7 ? this.upTo(20) : 0);
  }

  /** Answers the jobs that it committed. */
  private async transaction(session: Session, length: number, lasts: number): Promise<string[]> {
    const jobs: string[] = [];
    await session.begin();
    while (jobs.length < length) {
      jobs.push(...(await this.enqueue(session, this.upTo(Math.min(8, length - jobs.length)))));
      await this.rest();
    }
    if (lasts > 0) await pause(lasts);
    this.enqueued += length;
    if (this.random() < 0.1) {
      await session.rollback();
      return [];
    }
    await session.commit();
    this.committed += length;
    return jobs;
  }

  private async enqueue(session: Session, count: number): Promise<string[]> {
    const rows = await session.rows<{ id: string }>(
      `insert into pgqueue.jobs (kind, queue) select 'work', $1 from generate_series(1, $2::int)
       returning id`,
      [this.queue, count],
    );
    return rows.map(({ id }) => id);
  }

  private upTo(most: number): number {
    return 1 + Math.floor(this.random() * most);
  }

  /** 0 to 3 ms between two statements; as often as not none at all. */
  private async rest(): Promise<void> {
    if (this.random() < 0.5) await pause(this.upTo(3));
  }

  private async untilRun(jobs: readonly string[]): Promise<void> {
    const left = () => jobs.filter((job) => !this.runs.ran.has(job));
    await within(
      LOST_AFTER_MS,
      this.runs.until(() => left().length === 0),
      () => {
        const of = `Seed ${SEED}, queue ${this.queue}, round ${this.rounds}`;
        return new Error(`${of}: nobody woke up for the jobs ${left().join(', ')}`);
      },
    );
  }
}

/** What has run so far. */
class Runs {
  readonly ran = new Set<string>();
  private check: () => void = () => {};

  add(job: string): void {
    this.ran.add(job);
    this.check();
  }

  /** Resolves when it is so; asked after every run. One caller at a time. */
  until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.check = () => {
        if (isSo()) resolve();
      };
      this.check();
    });
  }
}
