import { tables } from './0001-tables.js';
import { enqueue } from './0002-enqueue.js';
import { settle } from './0003-settle.js';
import { exchange } from './0004-exchange.js';
import { leases } from './0005-leases.js';
import { byHand } from './0006-by-hand.js';
import { schedulesFire } from './0007-schedules-fire.js';
import { schedules } from './0007-schedules.js';
import { control } from './0008-control.js';
import { dedupe } from './0010-dedupe.js';
import { pause } from './0009-pause.js';
import { limits } from './0011-limits.js';
import { slots } from './0012-slots.js';

/** One step of the schema. Its text is valid SQL for the default schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** In order, each applied once. Additive only, so that the previous release runs on the next schema. */
export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: 'tables', sql: tables },
  { version: 2, name: 'enqueue', sql: enqueue },
  { version: 3, name: 'settle', sql: settle },
  { version: 4, name: 'exchange', sql: exchange },
  { version: 5, name: 'leases', sql: leases },
  { version: 6, name: 'by-hand', sql: byHand },
  { version: 7, name: 'schedules', sql: schedules + schedulesFire },
  { version: 8, name: 'control', sql: control },
  { version: 9, name: 'pause', sql: pause },
  { version: 10, name: 'dedupe', sql: dedupe },
  { version: 11, name: 'limits', sql: limits },
  { version: 12, name: 'slots', sql: slots },
];
