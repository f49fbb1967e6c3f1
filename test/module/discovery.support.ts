import type { DynamicModule, Provider, Type } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import type { HandlerTable } from '../../lib/contracts/handler.js';
import type { JobContext } from '../../lib/contracts/job.js';
import { DEFAULT_INSTANCE } from '../../lib/contracts/tokens.js';
import { HandlerExplorer } from '../../lib/discovery/handler-explorer.js';
import { HandlerInvoker } from '../../lib/discovery/handler-invoker.js';
import {
  buildHandlerTable,
  type HandlerTableSettings,
} from '../../lib/discovery/handler-registry.js';

export class QueueTestModule {}

/** The parts that the core module provides, without a database. */
export const queueModule: DynamicModule = {
  module: QueueTestModule,
  imports: [DiscoveryModule],
  providers: [HandlerExplorer, HandlerInvoker],
};

interface Parts {
  providers?: Provider[];
  controllers?: Type[];
  imports?: (Type | DynamicModule)[];
}

export class AppModule {}

/** An application whose one module is called AppModule. */
export function compile({ imports = [], ...parts }: Parts): Promise<TestingModule> {
  const app: DynamicModule = { module: AppModule, imports: [queueModule, ...imports], ...parts };
  return Test.createTestingModule({ imports: [app] }).compile();
}

/** A module with a name that messages can show. */
export function moduleNamed(name: string, parts: Omit<DynamicModule, 'module'>): DynamicModule {
  return { module: { [name]: class {} }[name] as Type, ...parts };
}

export function tableOf(
  app: Pick<TestingModule, 'get'>,
  settings: Partial<HandlerTableSettings> = {},
): HandlerTable {
  return buildHandlerTable(app.get(HandlerExplorer, { strict: false }).explore(), {
    instance: DEFAULT_INSTANCE,
    instances: new Set([DEFAULT_INSTANCE]),
    defaults: { keepDone: true, retryable: () => true },
    invoker: app.get(HandlerInvoker, { strict: false }),
    ...settings,
  });
}

/** The handlers of an application with these parts. */
export async function handlersOf(parts: Parts): Promise<HandlerTable> {
  return tableOf(await compile(parts));
}

/** Runs a job of the kind, as a worker would. */
export function run(table: HandlerTable, kind: string, payload?: unknown): Promise<unknown> {
  const handler = table.get(kind);
  if (!handler) throw new Error(`No handler of '${kind}' among: ${[...table.keys()].join(', ')}`);
  return handler.run(job(kind, payload));
}

let lastId = 0;

export function job(kind: string, payload?: unknown): JobContext {
  const id = String(++lastId);
  return {
    id,
    kind,
    queue: 'default',
    payload,
    attempt: 1,
    maxAttempts: 5,
    meta: null,
    createdAt: new Date(),
    signal: new AbortController().signal,
    idempotencyKey: id,
    logger: console,
    transaction: () => Promise.reject(new Error('This job is in no database')),
    tx: { query: () => Promise.reject(new Error('This job is in no database')) },
    progress: () => {},
  };
}
