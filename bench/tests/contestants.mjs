// @ts-check
// Who takes part in what. Names that no adapter has are left out of a run, and the report says so.

export const OURS = 'pg-queue';
export const NO_HISTORY = 'pg-queue-no-history';
export const MORE_SLOTS = 'pg-queue-200-slots';
export const NO_NOTIFY = 'pg-queue-no-notify';
export const GRAPHILE = 'graphile-worker';
export const PG_BOSS = 'pg-boss';
export const TEXTBOOK = 'textbook';
export const FLOOR = 'floor';
export const POSTGRES_PEERS = [PG_BOSS, GRAPHILE, 'bullmq-pg'];
export const EVERYSEC = 'bullmq-redis-everysec';
export const ALWAYS = 'bullmq-redis-always';
export const REDIS = [EVERYSEC, ALWAYS];
/** Who has nothing tuned. */
export const PEER_DEFAULTS = [
  'pg-boss-defaults',
  'graphile-worker-defaults',
  'bullmq-pg-defaults',
  'bullmq-redis-everysec-defaults',
];
