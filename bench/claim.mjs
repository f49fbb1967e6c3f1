// @ts-check
// Do claims stay as fast when the tables are full? Two schemas on one server: one holds nothing but the jobs
// that are being worked on, the other also 1,000,000 done jobs and 100,000 future ones. Both are measured in
// turn, and the ratio of their rates is what counts: it says the same on every machine.
//   npm run bench:claim [-- <seconds>]
import pg from 'pg';
import { startPostgres } from '../scripts/postgres.mjs';
import { resolveOptions } from '../dist/contracts/resolve-options.js';
import { Database } from '../dist/store/database.js';
import { JobStore } from '../dist/store/job-store.js';
import { migrate } from '../dist/store/migrator.js';
import { quoteIdentifier } from '../dist/store/sql.js';
import { exchange } from '../dist/store/statements/exchange.js';

/** @typedef {{ name: string, store: JobStore, client: pg.Client, worker: string, rates: number[] }} Contestant */
/** @typedef {import('../dist/store/statements/exchange.js').Settlement} Settlement */

const DONE = 1_000_000;
const FUTURE = 100_000;
/** Jobs of one measurement; each is claimed and settled in batches of 100. */
const JOBS = 5_000;
const BATCH = 100;
const LEAST_RATIO = 0.8;
const LEAST_ROUNDS = 5;
const SECONDS = Number(process.argv[2] ?? 45);

const postgres = await startPostgres({ durable: true });
/** @type {Contestant[]} */
const contestants = [];
try {
  const empty = await open('empty');
  const full = await open('full');
  await fill(full);
  console.log(`The claim with full tables: ${await explainClaim(full)}`);

  for (const contestant of contestants) await measure(contestant); // to warm up
  const until = performance.now() + SECONDS * 1000;
  for (let round = 0; round < LEAST_ROUNDS || performance.now() < until; round += 1) {
    // The first of a pair may have it easier, so it is another one each time.
    const pair = round % 2 === 0 ? [empty, full] : [full, empty];
    for (const contestant of pair) contestant.rates.push(await measure(contestant));
  }
  report(empty, full);
} finally {
  for (const { client, store } of contestants) {
    await client.query(`drop schema ${quoteIdentifier(store.database.schema)} cascade`);
    await client.end();
    await store.database.close();
  }
  await postgres.stop();
}

/**
 * @param {string} name
 * @returns {Promise<Contestant>}
 */
async function open(name) {
  const schema = `bench_claim_${name}_${process.pid}`;
  const database = new Database(resolveOptions({ connectionString: postgres.url, schema }));
  const store = new JobStore(database);
  await migrate(database);
  await store.makeDaysAhead();
  const worker = crypto.randomUUID();
  const self = { name: 'bench', host: 'bench', pid: process.pid, version: 'bench' };
  const serves = { queues: ['default'], kinds: ['k'], lease: 3_600_000 };
  await store.register({ id: worker, ...self, ...serves }, 10_000);
  const client = new pg.Client(postgres.url);
  await client.connect();
  const contestant = { name, store, client, worker, rates: [] };
  contestants.push(contestant);
  return contestant;
}

/** @param {Contestant} contestant */
async function fill({ client, store }) {
  const render = (/** @type {string} */ text) => store.database.render(text);
  await client.query(
    render(`insert into pgqueue.done_jobs
              (id, queue, kind, payload, status, priority, run_at, attempts, max_attempts, lease_no,
               created_at, finished_at, result)
            select -i, 'default', 'k', '{"userId": "12345"}', 'done', 0, now(), 1, 5, 1, now(), now(), '{}'
              from generate_series(1, ${DONE}) i`),
  );
  await client.query(
    render(`insert into pgqueue.jobs (kind, payload, run_at)
            select 'k', '{"userId": "12345"}', now() + interval '1 day' + i * interval '1 s'
              from generate_series(1, ${FUTURE}) i`),
  );
  await client.query(render('vacuum analyze pgqueue.jobs'));
  await client.query(render('vacuum analyze pgqueue.done_jobs'));
}

/**
 * Jobs per second, claimed and settled. Their insertion is not counted.
 * @param {Contestant} contestant
 */
async function measure({ client, store, worker }) {
  await client.query(
    store.database.render(
      `insert into pgqueue.jobs (kind, payload) select 'k', '{"userId": "12345"}' from generate_series(1, ${JOBS})`,
    ),
  );
  const started = performance.now();
  let settled = 0;
  /** @type {Settlement[]} */
  let settlements = [];
  do {
    const looks = [{ lane: 0, queue: 'default', want: BATCH }];
    const request = { worker, epoch: 0, settlements, looks, overflow: false };
    const rows = await store.database.engine.run(exchange, request);
    settled += settlements.length;
    settlements = rows.flatMap((row) =>
      row.answer === 'job'
        ? [{ id: row.job.id, leaseNo: row.job.leaseNo, action: 'done', result: '{}', keep: true }]
        : [],
    );
  } while (settlements.length > 0);
  if (settled !== JOBS) throw new Error(`${settled} of ${JOBS} jobs were settled`);
  return JOBS / ((performance.now() - started) / 1000);
}

/**
 * What the server says of the claim inside an exchange.
 * @param {Contestant} contestant
 */
async function explainClaim({ client, store, worker }) {
  /** @type {string[]} */
  const notices = [];
  client.on('notice', ({ message }) => notices.push(message ?? ''));
  await client.query(`load 'auto_explain'`);
  await client.query('set auto_explain.log_min_duration = 0');
  await client.query('set auto_explain.log_nested_statements = on');
  await client.query('set client_min_messages = log');
  const looks = [{ lane: 0, queue: 'default', want: BATCH }];
  const request = { worker, epoch: 0, settlements: [], looks, overflow: false };
  await client.query(store.database.render(exchange.text), exchange.values(request));
  await client.query('set auto_explain.log_min_duration = -1');
  const lines = notices.flatMap((notice) => notice.split('\n'));
  const line = lines.find((line) => line.includes('jobs_ready'))?.trim();
  if (line === undefined) throw new Error('The claim does not use the ready index');
  return line.replace(/^->\s+/, '');
}

/**
 * @param {Contestant} empty
 * @param {Contestant} full
 */
function report(empty, full) {
  const rate = (/** @type {Contestant} */ { rates }) =>
    Math.round(median(rates)).toLocaleString('en');
  const ratios = full.rates.map((rate, round) => rate / (empty.rates[round] ?? rate));
  const ratio = median(ratios);
  console.log(
    `Claimed and settled in batches of ${BATCH}, durable, one connection, medians of ${ratios.length} rounds:`,
  );
  console.log(`  empty tables                                     ${rate(empty)} jobs/s`);
  console.log(`  1,000,000 done jobs and 100,000 future jobs      ${rate(full)} jobs/s`);
  console.log(`ratio ${ratio.toFixed(2)} (at least ${LEAST_RATIO})`);
  if (ratio < LEAST_RATIO) process.exitCode = 1;
}

/** @param {number[]} values */
function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}
