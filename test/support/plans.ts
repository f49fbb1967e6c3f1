import type { Session } from './store.js';

/** One node of a plan, as EXPLAIN (FORMAT JSON) and auto_explain write it. */
export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Parent Relationship'?: string;
  readonly 'Actual Rows'?: number;
  readonly 'Actual Loops'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** A statement as it was run. */
export interface RunPlan {
  readonly text: string;
  readonly root: PlanNode;
}

/** From now on the session is told the plan of every statement that it runs, those inside functions too. */
export async function explainEverything(session: Session): Promise<void> {
  await session.query(`load 'auto_explain'`);
  const settings = {
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_nested_statements': 'on',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_timing': 'off',
    'auto_explain.log_format': 'json',
    client_min_messages: 'log',
  };
  for (const [name, value] of Object.entries(settings)) {
    await session.query(`select set_config($1, $2, false)`, [name, value]);
  }
}

/** The plans of the statements that `work` runs. */
export async function plansOf(session: Session, work: () => Promise<unknown>): Promise<RunPlan[]> {
  session.notices.length = 0;
  await work();
  return session.notices.flatMap((notice) => {
    const [, json] = notice.split(/^duration: .* plan:\n/);
    if (json === undefined) return [];
    const { 'Query Text': text, Plan: root } = JSON.parse(json) as {
      'Query Text': string;
      Plan: PlanNode;
    };
    return [{ text, root }];
  });
}

/** The node and all below it. */
export function nodesOf(root: PlanNode): PlanNode[] {
  return [root, ...(root.Plans ?? []).flatMap(nodesOf)];
}

/** How a node reads the table: its type, and the index if there is one. */
export function accessOf(node: PlanNode): string {
  const index = node['Index Name'];
  return index === undefined ? node['Node Type'] : `${node['Node Type']} on ${index}`;
}

/** How many rows of its table a node has looked at. */
export function rowsTouched(node: PlanNode): number {
  const removed =
    (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  return ((node['Actual Rows'] ?? 0) + removed) * (node['Actual Loops'] ?? 1);
}

/** The nodes that feed the node, without those of subplans that are run on their own. */
export function feeding(node: PlanNode): PlanNode[] {
  return (node.Plans ?? []).flatMap((child) =>
    /^(InitPlan|SubPlan)$/.test(child['Parent Relationship'] ?? '')
      ? []
      : [child, ...feeding(child)],
  );
}
