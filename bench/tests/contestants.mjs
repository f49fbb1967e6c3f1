// @ts-check
// Who takes part in what. Names that no adapter has are left out of a run, and the report says so.

export const OURS = 'pg-queue';
export const NO_HISTORY = 'pg-queue-no-history';
export const POSTGRES_PEERS = ['pg-boss', 'graphile-worker', 'bullmq-pg'];
export const REDIS = ['bullmq-redis-everysec', 'bullmq-redis-always'];

/** @type {Record<'all' | 'defaults', readonly string[]>} */
const GROUPS = {
  all: [OURS, ...POSTGRES_PEERS, ...REDIS, 'textbook'],
  defaults: [
    OURS,
    'pg-boss-defaults',
    'graphile-worker-defaults',
    'bullmq-pg-defaults',
    'bullmq-redis-everysec-defaults',
  ],
};

/** @param {keyof typeof GROUPS} group */
export function contestants(group) {
  return GROUPS[group];
}
