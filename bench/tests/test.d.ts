import type { Stage } from '../support/stage.mjs';

export type Mode = 'quick' | 'full';

/** By name; NaN = not measured. */
export type Metrics = Record<string, number>;

/** A column of a test's table. */
export interface Column {
  readonly metric: string;
  readonly title: string;
  readonly unit: 'count' | 'ms' | 'ratio' | 'bytes' | 'seconds' | 'yes';
}

/** Sizes and times of a test in one mode. */
export interface Size {
  /** 0 = not in this mode, unless it is asked for by name. */
  readonly rounds: number;
  /** A measurement that takes longer is given up, with everything around it. */
  readonly watchdogMs: number;
  readonly systems: readonly string[];
}

export interface BenchmarkTest<S extends Size = Size> {
  /** As `--tests` names it. */
  readonly name: string;
  readonly title: string;
  /** How it is measured, in a sentence or two. */
  readonly about: string;
  readonly sizes: Readonly<Record<Mode, S>>;
  /** The metric that ranks the systems. */
  readonly ranking: { readonly metric: string; readonly best: 'highest' | 'lowest' };
  readonly columns: readonly Column[];
  /** One measurement of one system in an empty place. */
  measure(stage: Stage, size: S): Promise<Metrics>;
}
