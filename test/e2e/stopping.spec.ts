import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { JobHandler, QueueService } from 'nestjs-pg-queue';
import { compileApp, endApps, freshSchema, on, pool, startApp, startWith } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { log } from '../support/log.js';
import { signal, type Signal } from '../support/signal.js';

afterEach(endApps);

/** A service that a job needs, and that closes with the application. */
@Injectable()
class Notes implements OnApplicationShutdown {
  static log: string[] = [];
  private open = true;

  write(text: string): void {
    if (!this.open) throw new Error('The notes are closed');
    Notes.log.push(text);
  }

  onApplicationShutdown(): void {
    this.open = false;
    Notes.log.push('closed');
  }
}

describe('B43: a stop lets running jobs end', () => {
  it('they still enqueue and use services, and nothing new is begun', async () => {
    Notes.log = [];
    const started = signal();
    const gate: Signal = signal();
    @Injectable()
    class Work {
      constructor(
        @Inject(QueueService) private readonly queue: QueueService,
        @Inject(Notes) private readonly notes: Notes,
      ) {}

      @JobHandler('work')
      async work(): Promise<string> {
        started.fire();
        await gate.happened;
        const { id } = await this.queue.enqueue('follow-up', {});
        this.notes.write('worked');
        return id;
      }

      @JobHandler('follow-up')
      followUp(): void {
        this.notes.write('followed up');
      }
    }
    const app = await startApp({ providers: [Notes, Work] });
    const { id } = await app.queue.enqueue('work', {});
    await started.happened;
    const closing = app.close();
    const { id: late } = await app.queue.enqueue('follow-up', {});
    gate.fire();
    await closing;
    expect(Notes.log).toEqual(['worked', 'closed']);
    const jobs = await app.sql(
      'select id::text, status, attempts, result from pgqueue.all_jobs order by id',
    );
    expect(jobs).toMatchObject([
      { id, status: 'done', attempts: 1 },
      { id: late, status: 'queued', attempts: 0 },
      { id: jobs[0].result, status: 'queued', attempts: 0 },
    ]);
    expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
    await expect(app.queue.enqueue('late', {})).rejects.toMatchObject({ code: 'CLOSED' });
  });
});

describe('B44: a stop is bounded and leaves nothing', () => {
  it('a job longer than the grace is told, handed back with its attempt, and waited for no longer', async () => {
    const started = signal();
    const forGood = signal();
    let reason: unknown;
    const stubborn = on('stubborn', async (_payload, job) => {
      job.signal.addEventListener('abort', () => (reason = job.signal.reason));
      started.fire();
      await forGood.happened;
    });
    const app = await startWith([stubborn], { worker: { shutdownGrace: '1s' } });
    const { id } = await app.queue.enqueue('stubborn', {});
    await started.happened;
    const began = performance.now();
    await app.close();
    const took = performance.now() - began;
    expect(took).toBeGreaterThan(900);
    expect(took).toBeLessThan(2_000);
    expect(reason).toMatchObject({ code: 'SHUTTING_DOWN' });
    const [row] = await app.sql(
      'select id::text, status, attempts, locked_by from pgqueue.all_jobs',
    );
    expect(row).toEqual({ id, status: 'queued', attempts: 0, locked_by: null });
    expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
    forGood.fire();
  });

  it('a job that listens to its signal is handed back at the end of the grace', async () => {
    const started = signal();
    const polite = on('polite', (_payload, job) => {
      started.fire();
      return new Promise((_, reject) =>
        job.signal.addEventListener('abort', () => reject(job.signal.reason)),
      );
    });
    const app = await startWith([polite], { worker: { shutdownGrace: '100ms' } });
    await app.queue.enqueue('polite', {});
    await started.happened;
    await app.close();
    const [row] = await app.sql('select status, attempts, last_error from pgqueue.all_jobs');
    expect(row).toEqual({ status: 'queued', attempts: 0, last_error: null });
  });

  it('the second close does nothing', async () => {
    const app = await startWith([on('kind', () => {})]);
    await app.module.close();
    await app.module.close();
    expect(log.lines.filter((line) => /^(error|warn)/.test(line))).toEqual([]);
  });

  it('close during the migration ends both', async () => {
    const schema = freshSchema();
    const client = await pool.connect();
    try {
      // Whoever migrates waits for this lock.
      await client.query('begin');
      await client.query(
        `select pg_advisory_xact_lock(hashtextextended('nestjs-pg-queue migrate ' || $1, 0))`,
        [schema],
      );
      const app = await compileApp({ providers: [on('kind', () => {})] }, { schema });
      const init = app.module.init().catch((error: unknown) => error);
      await eventually(async () => {
        const { rowCount } = await pool.query(
          `select from pg_stat_activity where application_name = 'nestjs-pg-queue'
              and wait_event = 'advisory' and query like '%nestjs-pg-queue migrate%'`,
        );
        expect(rowCount).toBeGreaterThan(0);
      });
      const closing = app.close();
      await client.query('rollback');
      await Promise.all([init, closing]);
      const { rows } = await pool.query('select to_regclass($1) as workers', [
        `"${schema}".workers`,
      ]);
      if (rows[0].workers !== null) {
        expect(await app.sql('select id from pgqueue.workers')).toEqual([]);
      }
    } finally {
      client.release();
    }
  });
});

describe('a stop stores what has ended', () => {
  it('within the grace, also when a row is locked meanwhile: the job does not run again', async () => {
    const running = signal();
    const gate = signal();
    const app = await startWith(
      [
        on('work', async () => {
          running.fire();
          await gate.happened;
        }),
      ],
      { worker: { shutdownGrace: '20s' } },
    );
    const { id } = await app.queue.enqueue('work');
    await running.happened;
    const holder = await pool.connect();
    await holder.query('begin');
    await holder.query(`select from "${app.schema}".jobs where id = $1 for update`, [id]);
    const closed = app.close();
    gate.fire();
    // The settlement has met the lock when it is there twice: busy, and sent again.
    const answers = () => log.lines.filter((line) => line.includes('handed back'));
    await eventually(async () => {
      const { rows } = await pool.query(
        `select count(*)::int as seen from pg_stat_activity
          where application_name = 'nestjs-pg-queue' and query like $1 and state = 'idle'`,
        [`%"${app.schema}".exchange_v1%`],
      );
      expect(rows[0]?.seen).toBeGreaterThan(0);
    });
    await holder.query('commit');
    holder.release();
    await closed;
    expect(answers()).toEqual([]);
    const [row] = await app.sql('select status, attempts from pgqueue.all_jobs where id = $1', [
      id,
    ]);
    expect(row).toEqual({ status: 'done', attempts: 1 });
  });
});
