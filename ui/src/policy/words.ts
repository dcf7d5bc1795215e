// Words for groups and policy in texts.

import { text } from '../texts';
import { DEFAULT_GROUP } from './configuration.svelte';

/** Returns a group as people read it. */
export function groupText(group: string): string {
  if (group === '') return text.policy.everybody;
  return group === DEFAULT_GROUP ? text.policy.ungrouped : group;
}

/** Splits what was typed into values. */
export function split(typed: string): string[] {
  return typed.split(/[\s,;]+/).filter(Boolean);
}
