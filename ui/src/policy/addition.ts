// Lists that are added to the configuration.

import { configuration, type Edit } from './configuration.svelte';
import { freeName } from './shapes';

/** Returns the name of a new list, and the edits that add it for all groups but some. */
export function addition(
  wanted: string,
  settings: Record<string, string>,
  without: readonly string[] = [],
): { name: string; edits: Edit[] } {
  const tables = configuration.tables;
  const lists = tables?.list ?? [];
  const name = freeName(wanted, lists);
  const before = lists.map((one) => one.name);
  const groups = configuration.groups.flatMap((group): Edit[] => {
    const isIn = !without.includes(group.name);
    if (isIn && group.lists) return [[`group[${group.name}].lists`, [...group.lists, name]]];
    if (isIn || group.lists) return [];
    const isInFile = tables?.group.some((one) => one.name === group.name);
    return isInFile
      ? [[`group[${group.name}].lists`, before]]
      : [[`group[${group.name}]`, { lists: before }]];
  });
  return { name, edits: [[`list[${name}]`, settings], ...groups] };
}
