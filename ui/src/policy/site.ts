// The registered domain of a name, by the shape of its last labels. There is no list of public
// suffixes in the browser: a name below an unusual one counts as that of its suffix.

import { bare } from '../format';

/** Second labels below which countries register names, such as co.uk. */
const SECOND = new Set(['ac', 'co', 'com', 'edu', 'gob', 'gov', 'go', 'gv', 'ltd', 'me', 'mil', 'ne', 'net', 'nom', 'or', 'org', 'plc', 'sch']);

/** Returns the registered domain of a name. */
export function siteOf(name: string): string {
  // A label may have an escaped dot.
  const labels = bare(name.toLowerCase()).match(/(?:\\.|[^.\\])+/g) ?? [];
  if (labels.length <= 2) return labels.join('.') || '.';
  const [second, top] = labels.slice(-2);
  if (top === 'arpa') return labels.slice(-Math.min(labels.length, 4)).join('.');
  const takes = top?.length === 2 && SECOND.has(second ?? '') ? 3 : 2;
  return labels.slice(-takes).join('.');
}
