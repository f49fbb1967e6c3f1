// @ts-check
/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.spec.ts'],
  testTimeout: 30_000,
  // PostgreSQL works on the same machine.
  maxWorkers: 2,
  reporters: ['default', '<rootDir>/test/support/plain-reporter.mjs'],
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',

  // Native ECMAScript modules, as Nest 12 is one; types are checked by `npm run typecheck`.
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    '^nestjs-pg-queue$': '<rootDir>/lib/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, verbatimModuleSyntax: true },
        },
        module: { type: 'es6' },
      },
    ],
  },

  collectCoverageFrom: ['lib/**/*.ts'],
  coverageProvider: 'v8',
};
