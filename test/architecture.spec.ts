import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path/posix';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

// What a folder of lib/ may import: data flows one way, decorators → discovery → worker → store, and
// queue → store; contracts is the vocabulary they share. Change it with docs/architecture.md.
const MAY_IMPORT = `
| may import → | contracts | decorators | discovery | worker | queue | schedules | store | @nestjs/common | @nestjs/core | rxjs | pg | croner |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
| contracts | yes | | | | | | | types | | | types | |
| decorators | yes | yes | | | | | | yes | | | | |
| discovery | yes | keys | yes | | | | | yes | yes | yes | | |
| schedules | yes | | | | | yes | | | | | | yes |
| worker | yes | | | yes | | yes | yes | yes (Logger, hooks) | | | | |
| queue | yes | | | | yes | yes | yes | yes | | types | | |
| events | yes | | | | | | | | | yes | | |
| store | yes | | | | | | yes | | | | yes | |
| adapters, health, testing, dashboard | yes | | | testing only | yes | | | yes | | | | |
`;

// The composition root, which sees everything but the parts that an application asks for by a subpath.
const ROOT = /^(index|pg-queue\.module[a-z.-]*)\.ts$/;
const SUBPATHS = new Set(['adapters', 'health', 'testing', 'dashboard']);

const LOGGER_AND_HOOKS = new Set([
  'Logger',
  'LoggerService',
  'OnModuleInit',
  'OnApplicationBootstrap',
  'OnModuleDestroy',
  'BeforeApplicationShutdown',
  'OnApplicationShutdown',
]);

/** One import in one file; both paths are relative to lib/. */
interface Import {
  readonly file: string;
  readonly specifier: string;
  /** The file of lib/ that a relative import means; undefined for packages. */
  readonly target: string | undefined;
  readonly names: readonly string[];
  readonly typeOnly: boolean;
}

const CELLS: Record<string, (of: Import) => boolean> = {
  yes: () => true,
  types: ({ typeOnly }) => typeOnly,
  keys: ({ target }) => target === 'decorators/metadata.ts',
  'testing only': ({ file }) => folderOf(file) === 'testing',
  'yes (Logger, hooks)': ({ names }) => names.every((name) => LOGGER_AND_HOOKS.has(name)),
  '': () => false,
};

const LIB = fileURLToPath(new URL('../lib/', import.meta.url));
const FILES = filesOf(LIB);
const TABLE = parseTable(MAY_IMPORT);

test('every import of lib/ is one that the table allows', () => {
  expect(FILES.length).toBeGreaterThan(10);
  const wrong = FILES.flatMap((file) => wrongImports(file, readFileSync(join(LIB, file), 'utf8')));
  expect(wrong).toEqual([]);
});

test.each([
  ['contracts/job.ts', `import type { Logger } from '@nestjs/common'`],
  ['contracts/job.ts', `import { types } from 'node:util'`],
  ['discovery/handler-explorer.ts', `import { handlersOf } from '../decorators/metadata.js'`],
  ['worker/worker.ts', `import { Logger, type OnModuleDestroy } from '@nestjs/common'`],
  ['worker/housekeeping/rescue.ts', `import { rescue } from '../../store/statements/rescue.js'`],
  ['testing/drain.ts', `import { Worker } from '../worker/worker.js'`],
  ['health/indicator.ts', `import { check } from './check.js'`],
  ['events/job-events.ts', `import { Subject } from 'rxjs'`],
  ['events/job-events.ts', `import { callGuarded } from './guarded-observable.js'`],
  ['queue/queue.service.ts', `import type { Observable } from 'rxjs'`],
  ['pg-queue.module-definition.ts', `import { Worker } from './worker/worker.js'`],
])('%s may say: %s', (file, source) => {
  expect(wrongImports(file, source)).toEqual([]);
});

test.each([
  ['contracts/job.ts', `import { Logger } from '@nestjs/common'`],
  ['contracts/job.ts', `import { type Logger } from '@nestjs/common'`], // stays an import at run time
  ['contracts/job.ts', `export * from '../store/database.js'`],
  [
    'decorators/job-handler.ts',
    `const registry = await import('../discovery/handler-registry.js')`,
  ],
  ['discovery/handler-explorer.ts', `import { JobHandler } from '../decorators/job-handler.js'`],
  ['worker/worker.ts', `import { Injectable, Logger } from '@nestjs/common'`],
  ['worker/worker.ts', `import * as nest from '@nestjs/common'`],
  ['worker/worker.ts', `import { Pool } from 'pg'`],
  ['queue/queue.service.ts', `type Runner = import('../worker/job-runner.js').JobRunner`],
  ['queue/queue.service.ts', `import { Subject } from 'rxjs'`],
  ['worker/worker.ts', `import { Subject } from 'rxjs'`],
  ['worker/worker.ts', `import { JobEvents } from '../events/job-events.js'`],
  ['store/database.ts', `import '@nestjs/common'`],
  ['store/database.ts', `import { join } from 'path'`],
  ['store/database.ts', `import { QueueService } from '../index.js'`],
  ['health/indicator.ts', `import { Worker } from '../worker/worker.js'`],
  ['index.ts', `export { drainQueue } from './testing/drain.js'`],
  ['helpers/strings.ts', `import { Pool } from 'pg'`],
  ['helpers.ts', `import { Pool } from 'pg'`],
])('%s may not say: %s', (file, source) => {
  expect(wrongImports(file, source)).toHaveLength(1);
});

test('the public names are listed one by one', () => {
  expect(readFileSync(join(LIB, 'index.ts'), 'utf8')).not.toMatch(/export\s*\*/);
});

test('no file of lib/ has more than 300 lines', () => {
  const lines = (file: string) =>
    readFileSync(join(LIB, file), 'utf8').trimEnd().split('\n').length;
  expect(FILES.filter((file) => lines(file) > 300)).toEqual([]);
});

/** Paths relative to the directory, with slashes on every system. */
function filesOf(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts'));
}

/** One sentence for each import that the table does not allow. */
function wrongImports(file: string, source: string): string[] {
  return importsOf(file, source)
    .filter((found) => !isAllowed(found))
    .map(({ specifier, names }) => `lib/${file} imports ${names.join(', ')} from ${specifier}`);
}

function isAllowed(found: Import): boolean {
  const { file, specifier, target } = found;
  if (specifier.startsWith('node:')) return true;

  const folder = folderOf(file);
  const column = target === undefined ? specifier : folderOf(target);
  if (ROOT.test(file)) return !SUBPATHS.has(column);
  if (folder !== '' && column === folder) return true;
  const cell = TABLE.get(folder)?.get(column) ?? '';
  return CELLS[cell]?.(found) ?? false;
}

function importsOf(file: string, source: string): Import[] {
  const found: Import[] = [];
  const add = (specifier: ts.Node, names: readonly string[], typeOnly: boolean) => {
    if (!ts.isStringLiteralLike(specifier)) throw new Error(`lib/${file} imports a computed name`);
    const { text } = specifier;
    const path = text.startsWith('.') ? join(dirname(file), text) : undefined;
    const target = path?.replace(/\.js$/, '.ts');
    found.push({ file, specifier: text, target, names, typeOnly });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      const clause = node.importClause;
      add(
        node.moduleSpecifier,
        namesOf(clause),
        clause?.phaseModifier === ts.SyntaxKind.TypeKeyword,
      );
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      add(node.moduleSpecifier, namesOf(node.exportClause), node.isTypeOnly);
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, [node.qualifier?.getText() ?? '*'], true);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0] ?? node, ['*'], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true));
  return found;
}

function namesOf(clause: ts.ImportClause | ts.NamedExportBindings | undefined): string[] {
  if (clause === undefined) return ['*'];
  if (ts.isNamedExports(clause)) return clause.elements.map((element) => element.name.text);
  if (!ts.isImportClause(clause)) return ['*'];
  const bindings = clause.namedBindings;
  return [
    ...(clause.name ? ['default'] : []),
    ...(bindings && ts.isNamespaceImport(bindings) ? ['*'] : []),
    ...(bindings && ts.isNamedImports(bindings)
      ? bindings.elements.map(({ name, propertyName }) => (propertyName ?? name).text)
      : []),
  ];
}

/** Folder → column → cell. */
function parseTable(markdown: string): Map<string, Map<string, string>> {
  const cellsOf = (line: string) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  const [header = '', , ...rows] = markdown.trim().split('\n');
  const [, ...columns] = cellsOf(header);
  return new Map(
    rows.flatMap((row) => {
      const [folders = '', ...cells] = cellsOf(row);
      const byColumn = new Map(columns.map((column, index) => [column, cells[index] ?? '']));
      return folders.split(', ').map((folder) => [folder, byColumn] as const);
    }),
  );
}

/** '' for a file that lies in lib/ itself. */
function folderOf(file: string): string {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : '';
}
