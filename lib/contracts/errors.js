/**
 * The one family of errors that this package throws by itself. The message is a sentence that names
 * what is at fault and then says what to do; `code` is for programs.
 */
export class PgQueueError extends Error {
    code;
    name = 'PgQueueError';
    constructor(code, message, options) {
        super(message, options);
        this.code = code;
    }
}
/** Bad input to `enqueue`: `path` says where, such as `payload.items[2].name`. */
export class InvalidJobError extends PgQueueError {
    path;
    name = 'InvalidJobError';
    constructor(path, problem) {
        super('INVALID_JOB', `${path} ${problem}`);
        this.path = path;
    }
}
