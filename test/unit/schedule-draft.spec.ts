import type { HandlerTable, RegisteredHandler } from '../../lib/contracts/handler.js';
import type { NewSchedule, ScheduleChanges } from '../../lib/contracts/schedule.js';
import { declaredSchedules, draftChanges, draftSchedule } from '../../lib/queue/schedule-draft.js';

const draft = (schedule: unknown) =>
  draftSchedule(schedule as NewSchedule, (kind) =>
    kind === 'report' ? { queue: 'reports', maxAttempts: 3 } : undefined,
  );

const NIGHTLY = { name: 'nightly', kind: 'report', cron: '0 3 * * *' };

describe('a schedule as the database takes it', () => {
  it('has the defaults of its handler, UTC and `latest`', () => {
    expect(draft(NIGHTLY)).toEqual({
      name: 'nightly',
      kind: 'report',
      queue: 'reports',
      payload: '{}',
      priority: null,
      maxAttempts: 3,
      cron: '0 3 * * *',
      everyMs: null,
      timeZone: 'UTC',
      startsAt: null,
      endsAt: null,
      catchUp: 'latest',
    });
  });

  it('has what it was given', () => {
    const row = draft({
      name: 'often',
      kind: 'other',
      every: '5m',
      timeZone: 'Asia/Kathmandu',
      payload: [1],
      start: '2027-01-01T00:00:00+05:45',
      end: new Date('2028-01-01T00:00:00Z'),
      catchUp: 'all',
      queue: 'q',
      priority: -1,
      maxAttempts: 1,
    });
    expect(row).toEqual({
      name: 'often',
      kind: 'other',
      queue: 'q',
      payload: '[1]',
      priority: -1,
      maxAttempts: 1,
      cron: null,
      everyMs: 300_000,
      timeZone: 'Asia/Kathmandu',
      startsAt: '2026-12-31T18:15:00.000Z',
      endsAt: '2028-01-01T00:00:00.000Z',
      catchUp: 'all',
    });
  });

  it.each<[object | null, string]>([
    [{ ...NIGHTLY, timeZone: 'Mars/Phobos' }, "`timeZone` 'Mars/Phobos' is not known"],
    [{ ...NIGHTLY, timeZone: '+02:00' }, '`timeZone`'],
    [{ ...NIGHTLY, cron: '0 0 30 2 *' }, "`cron` '0 0 30 2 *' is no pattern: no date ever"],
    [{ ...NIGHTLY, cron: '* * *' }, 'is no pattern: it has 3 fields'],
    [{ ...NIGHTLY, cron: '99 * * * *' }, "'99 * * * *' is no pattern"],
    [{ ...NIGHTLY, cron: 5 }, '`cron` must be a pattern'],
    [{ ...NIGHTLY, every: '5m' }, '`cron` or `every` must be given, and not both'],
    [{ name: 'n', kind: 'k' }, '`cron` or `every` must be given'],
    [{ name: 'n', kind: 'k', every: '10ms' }, '`every` must be at least a second'],
    [{ name: 'n', kind: 'k', every: 'often' }, '`every` must be at least a second'],
    [{ ...NIGHTLY, name: '' }, '`name` must be text of 1 to 255 bytes'],
    [{ ...NIGHTLY, name: 'a\0' }, '`name`'],
    [{ ...NIGHTLY, kind: '' }, 'kind must be text'],
    [{ ...NIGHTLY, payload: { s: 'a\0b' } }, 'payload.s holds a NUL character'],
    [{ ...NIGHTLY, start: '2027-01-01T00:00:00' }, 'start must be a valid Date'],
    [{ ...NIGHTLY, end: 'never' }, 'end must be a valid Date'],
    [{ ...NIGHTLY, catchUp: 'some' }, "`catchUp` must be one of 'skip', 'latest', 'all'"],
    [{ ...NIGHTLY, timezone: 'UTC' }, '`timezone` is no option of a schedule here'],
    [{ ...NIGHTLY, priority: 0.5 }, 'priority must be a whole number'],
    [null, 'must be objects'],
  ])('%j is refused: %s', (schedule, message) => {
    expect(() => draft(schedule)).toThrow(
      expect.objectContaining({
        code: 'INVALID_SCHEDULE',
        message: expect.stringContaining(message),
      }),
    );
  });
});

describe('what an update sets', () => {
  it.each<[ScheduleChanges, object]>([
    [{}, {}],
    [{ cron: '@daily' }, { cron: '@daily', everyMs: null }],
    [{ every: '1h' }, { cron: null, everyMs: 3_600_000 }],
    [
      { start: null, payload: null },
      { startsAt: null, payload: 'null' },
    ],
    [
      { queue: 'q', catchUp: 'skip' },
      { queue: 'q', catchUp: 'skip' },
    ],
  ])('%j: %j', (changes, expected) => {
    expect(draftChanges(changes)).toEqual(expected);
  });

  it.each<[unknown, string]>([
    [{ kind: 'other' }, '`kind` is no option'],
    [{ cron: '@daily', every: '1h' }, 'must not be given together'],
    [{ timeZone: 'Nowhere' }, '`timeZone`'],
  ])('%j is refused: %s', (changes, message) => {
    expect(() => draftChanges(changes as ScheduleChanges)).toThrow(message);
  });
});

describe('what @JobSchedule says', () => {
  function table(...handlers: Partial<RegisteredHandler>[]): HandlerTable {
    return new Map(
      handlers.map((handler) => [
        handler.kind ?? '',
        { queue: 'default', maxAttempts: 5, ...handler } as RegisteredHandler,
      ]),
    );
  }
  const handler = { kind: 'report', queue: 'reports', origin: 'Reports.send' };

  it('is named like its kind unless it says another name', () => {
    const rows = declaredSchedules(
      table({
        ...handler,
        schedules: [
          { times: { cron: '@daily' }, options: {} },
          { times: { every: '1h' }, options: { name: 'hourly report' } },
        ],
      }),
    );
    expect(rows).toMatchObject([
      { name: 'report', kind: 'report', queue: 'reports', cron: '@daily' },
      { name: 'hourly report', kind: 'report', everyMs: 3_600_000 },
    ]);
  });

  it('is refused with the method at fault', () => {
    const schedules = [{ times: { cron: '@daily' }, options: { timeZone: 'Mars/Phobos' } }];
    expect(() => declaredSchedules(table({ ...handler, schedules }))).toThrow(
      /^@JobSchedule on Reports\.send: The schedule's `timeZone` 'Mars\/Phobos'/,
    );
  });

  it('is refused if two have one name', () => {
    const schedule = { times: { cron: '@daily' }, options: {} };
    const one = { ...handler, schedules: [schedule, schedule] };
    expect(() => declaredSchedules(table(one))).toThrow(
      "The schedule 'report' is declared twice: on Reports.send and on Reports.send.",
    );
  });
});
