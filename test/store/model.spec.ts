import fc from 'fast-check';
import { cancel, retryMany } from '../../lib/store/statements/jobs.js';
import { sweepSlots } from '../../lib/store/statements/limits.js';
import { declareDead, rescue } from '../../lib/store/statements/workers.js';
import {
  done,
  endLease,
  exchange,
  openStore,
  startWorker,
  type TestStore,
} from '../support/store.js';
import type { Settlement } from '../../lib/store/statements/exchange.js';

// Commands in any order against the tables and against this model of them; a failure is shrunk to the shortest
// sequence that shows it. SEED=… repeats a run.
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000_000);
const RUNS = 30;
const COMMANDS = 100;
const WORKERS = 3;
const MAX_ATTEMPTS = 2;

type Action = 'done' | 'retry' | 'release' | 'fail' | 'cancel';

interface ModelJob {
  readonly id: string;
  readonly tenant: string;
  status: 'pending' | 'running' | 'failed' | 'done' | 'cancelled';
  attempts: number;
  leaseNo: number;
  worker: number | undefined;
  cancelRequested: boolean;
}

/** A claim that a worker remembers, whether or not it still holds. */
interface Claim {
  readonly worker: number;
  readonly workerId: string;
  readonly id: string;
  readonly leaseNo: number;
}

class Model {
  readonly jobs: ModelJob[] = [];
  readonly claims: Claim[] = [];
  inAll = 3;
  perTenant = 1;

  running(tenant?: string): ModelJob[] {
    return this.jobs.filter(
      (job) => job.status === 'running' && (tenant ?? job.tenant) === job.tenant,
    );
  }
}

/** The tables, and who works. */
interface Real {
  readonly t: TestStore;
  readonly workers: string[];
}

type Command = fc.AsyncCommand<Model, Real>;

/** Every job is where the model says, and no limit is passed. */
async function check(model: Model, { t, workers }: Real): Promise<void> {
  const rows = await t.observer.rows<{
    id: string;
    status: string;
    attempts: number;
    locked_by: string | null;
  }>('select id, status, attempts, locked_by from pgqueue.all_jobs order by id');
  const found = rows.map(({ id, status, attempts, locked_by }) => {
    const isPending = status === 'queued' || status === 'waiting' || status === 'scheduled';
    const worker = status === 'running' ? workers.indexOf(locked_by ?? '') : undefined;
    return { id, status: isPending ? 'pending' : status, attempts, worker };
  });
  expect(found).toEqual(
    model.jobs.map(({ id, status, attempts, worker }) => ({ id, status, attempts, worker })),
  );
}

class Enqueue implements Command {
  constructor(
    private readonly tenant: string,
    private readonly priority: number,
  ) {}
  check = () => true;
  async run(model: Model, real: Real) {
    const id = await real.t.observer.value<string>(
      `insert into pgqueue.jobs (kind, payload, priority, max_attempts)
       values ('k', jsonb_build_object('tenant', $1::text), $2, ${MAX_ATTEMPTS}) returning id`,
      [this.tenant, this.priority],
    );
    const job = {
      id,
      tenant: this.tenant,
      attempts: 0,
      leaseNo: 0,
      worker: undefined,
      cancelRequested: false,
    };
    model.jobs.push({ ...job, status: 'pending' });
    await check(model, real);
  }
  toString = () => `enqueue(${this.tenant}, ${this.priority})`;
}

class Exchange implements Command {
  constructor(
    private readonly worker: number,
    private readonly want: number,
    private readonly ends: readonly { readonly claim: number; readonly action: Action }[],
  ) {}
  check = () => true;

  async run(model: Model, real: Real) {
    const workerId = real.workers[this.worker] ?? '';
    const chosen = new Map<string, Settlement>();
    for (const { claim: index, action } of this.ends) {
      // Old claims too: what a rescue has taken away must stay so.
      const claim = model.claims.filter((c) => c.workerId === workerId).at(-1 - index);
      if (claim !== undefined && !chosen.has(claim.id))
        chosen.set(claim.id, settlement(claim, action));
    }
    const settlements = [...chosen.values()];
    for (const end of settlements) this.expectEnd(model, end);
    const held = settlements.length > 0 ? settlements.map(({ id }) => id) : undefined;
    const got = await exchange(real.t.observer, {
      worker: workerId,
      want: this.want,
      settlements,
      ...(held && { held }),
    });
    expect(got.jobs.length).toBeLessThanOrEqual(this.want);
    for (const { id, leaseNo, attempt } of got.jobs) {
      const job = model.jobs.find((candidate) => candidate.id === id);
      expect(job).toMatchObject({ status: 'pending', attempts: attempt - 1, leaseNo: leaseNo - 1 });
      Object.assign(job ?? {}, {
        status: 'running',
        attempts: attempt,
        leaseNo,
        worker: this.worker,
      });
      model.claims.push({ worker: this.worker, workerId, id, leaseNo });
    }
    for (const id of got.spent) {
      Object.assign(model.jobs.find((job) => job.id === id) ?? {}, {
        status: 'failed',
        worker: undefined,
      });
    }
    if (got.jobs.length > 0) {
      expect(model.running().length).toBeLessThanOrEqual(model.inAll);
      for (const job of model.running()) {
        expect(model.running(job.tenant).length).toBeLessThanOrEqual(model.perTenant);
      }
    }
    await check(model, real);
  }

  private expectEnd(model: Model, end: Settlement): void {
    const job = model.jobs.find(({ id }) => id === end.id);
    const isHeld =
      job?.status === 'running' && job.worker === this.worker && job.leaseNo === end.leaseNo;
    if (!job || !isHeld) return;
    job.worker = undefined;
    if (job.cancelRequested) job.status = 'cancelled';
    else if (end.action === 'done') job.status = 'done';
    else if (end.action === 'fail') job.status = 'failed';
    else if (end.action === 'cancel') job.status = 'cancelled';
    else job.status = 'pending';
    if (end.action === 'release' && !job.cancelRequested) job.attempts -= 1;
  }

  toString = () =>
    `exchange(worker ${this.worker}, want ${this.want}, ${JSON.stringify(this.ends)})`;
}

function settlement({ id, leaseNo }: Claim, action: Action): Settlement {
  return action === 'done' ? done({ id, leaseNo }) : { id, leaseNo, action };
}

class Kill implements Command {
  constructor(private readonly worker: number) {}
  check = () => true;
  async run(model: Model, real: Real) {
    const { observer } = real.t;
    const dead = real.workers[this.worker] ?? '';
    await endLease(observer, dead);
    await observer.run(declareDead, dead);
    await observer.run(rescue, { strays: false, limit: 1_000 });
    for (const job of model.jobs) {
      if (job.status !== 'running' || job.worker !== this.worker) continue;
      job.worker = undefined;
      if (job.cancelRequested) job.status = 'cancelled';
      else job.status = job.attempts >= MAX_ATTEMPTS ? 'failed' : 'pending';
    }
    real.workers[this.worker] = await startWorker(observer);
    await check(model, real);
  }
  toString = () => `kill(worker ${this.worker})`;
}

class ByHand implements Command {
  constructor(
    private readonly what: 'cancel' | 'retry',
    private readonly index: number,
  ) {}
  check = ({ jobs }: Readonly<Model>) => jobs.length > 0;
  async run(model: Model, real: Real) {
    const job = model.jobs[this.index % model.jobs.length] as ModelJob;
    if (this.what === 'cancel') {
      await real.t.observer.run(cancel, job.id);
      if (job.status === 'pending') job.status = 'cancelled';
      if (job.status === 'running') job.cancelRequested = true;
    } else {
      await real.t.observer.run(retryMany, [job.id]);
      if (job.status === 'failed') Object.assign(job, { status: 'pending', attempts: 0 });
    }
    await check(model, real);
  }
  toString = () => `${this.what}(job ${this.index})`;
}

class ChangeLimits implements Command {
  constructor(
    private readonly inAll: number,
    private readonly perTenant: number,
  ) {}
  check = () => true;
  async run(model: Model, real: Real) {
    await setLimits(real.t, this.inAll, this.perTenant);
    // What runs is not interrupted: only then may it be more than is allowed.
    model.inAll = Math.max(this.inAll, model.running().length);
    model.perTenant = Math.max(
      this.perTenant,
      ...model.running().map(({ tenant }) => model.running(tenant).length),
    );
    await check(model, real);
  }
  toString = () => `limits(${this.inAll}, ${this.perTenant})`;
}

class Sweep implements Command {
  check = () => true;
  async run(model: Model, real: Real) {
    await real.t.observer.run(sweepSlots, undefined);
    await check(model, real);
  }
  toString = () => 'sweep()';
}

async function setLimits({ observer }: TestStore, inAll: number, perTenant: number): Promise<void> {
  await observer.query(
    `insert into pgqueue.limits (name, by, max_running) values ('all', null, $1), ('per tenant', '{tenant}', $2)
     on conflict (name) do update set max_running = excluded.max_running`,
    [inAll, perTenant],
  );
}

/** Work goes on until nothing is left: no job is stuck, whatever happened before. */
async function drain(model: Model, real: Real): Promise<void> {
  for (
    let turn = 0;
    model.jobs.some(({ status }) => status === 'pending' || status === 'running');
    turn += 1
  ) {
    expect(turn).toBeLessThan(200);
    // A job that saw several workers die is put off.
    await real.t.observer.query(`update pgqueue.jobs set run_at = now() where waits_for = 'time'`);
    for (let worker = 0; worker < WORKERS; worker += 1) {
      const ends = Array.from({ length: 20 }, (_, claim) => ({ claim, action: 'done' as const }));
      await new Exchange(worker, 5, ends).run(model, real);
    }
    await new Sweep().run(model, real);
  }
}

const action = fc.constantFrom<Action>('done', 'done', 'retry', 'release', 'fail', 'cancel');
const worker = fc.nat(WORKERS - 1);
const enqueue = fc
  .tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: -1, max: 1 }))
  .map((args) => new Enqueue(...args));
const exchanges = fc
  .tuple(
    worker,
    fc.integer({ min: 0, max: 4 }),
    fc.array(fc.record({ claim: fc.nat(4), action }), { maxLength: 3 }),
  )
  .map((args) => new Exchange(...args));
const byHand = fc
  .tuple(fc.constantFrom('cancel' as const, 'retry' as const), fc.nat(20))
  .map((args) => new ByHand(...args));
const changeLimits = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 2 }))
  .map((args) => new ChangeLimits(...args));
// What is named several times comes as often more.
const commands = fc.commands<Model, Real, boolean>(
  [
    enqueue,
    enqueue,
    enqueue,
    exchanges,
    exchanges,
    exchanges,
    byHand,
    worker.map((index) => new Kill(index)),
    changeLimits,
    fc.constant(new Sweep()),
  ],
  { maxCommands: COMMANDS, size: 'max' },
);

test(`any sequence of commands leaves every job where a model says, within its limits (seed ${SEED})`, async () => {
  const t = await openStore();
  try {
    await fc.assert(
      fc.asyncProperty(commands, async (sequence) => {
        await t.observer.query(
          `truncate pgqueue.jobs, pgqueue.failed_jobs, pgqueue.done_jobs, pgqueue.workers, pgqueue.limits,
                    pgqueue.holds, pgqueue.rates`,
        );
        await setLimits(t, 3, 1);
        const workers: string[] = [];
        for (let index = 0; index < WORKERS; index += 1)
          workers.push(await startWorker(t.observer));
        const model = new Model();
        const real = { t, workers };
        await fc.asyncModelRun(() => ({ model, real }), sequence);
        await setLimits(t, 3, 1);
        model.inAll = Math.max(3, model.running().length);
        model.perTenant = 2;
        await drain(model, real);
      }),
      { seed: SEED, numRuns: RUNS, endOnFailure: false },
    );
  } finally {
    await t.close();
  }
}, 120_000);
