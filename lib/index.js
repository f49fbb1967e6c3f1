export { InvalidJobError, PgQueueError } from './contracts/errors.js';
export { CancelJob, RetryAt, SnoozeJob, UnrecoverableError } from './contracts/verdicts.js';
