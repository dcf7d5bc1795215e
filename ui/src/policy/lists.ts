// Which lists apply to which groups. A group without lists has all of them.

import type { ListStatus } from '../api/schema';
import { day, percent, short } from '../format';
import { text } from '../texts';
import { DEFAULT_GROUP, type Edit, type GroupEntry } from './configuration.svelte';

/** Returns whether a list applies to a group. */
export function applies(group: GroupEntry, list: string): boolean {
  return group.lists === undefined || group.lists.includes(list);
}

/** Returns the edits that turn a list on or off for a group. */
export function applied(
  group: GroupEntry,
  list: string,
  { on, all, isInFile }: { on: boolean; all: readonly string[]; isInFile: boolean },
): Edit[] {
  const present = group.lists ?? all;
  const lists = on ? [...new Set([...present, list])] : present.filter((one) => one !== list);
  // A group with all lists is one without the key: lists of the future apply to it as well.
  const isAll = all.every((one) => lists.includes(one));
  if (isAll) return group.lists === undefined ? [] : [[`group[${group.name}].lists`, null]];
  if (!isInFile) return [[`group[${DEFAULT_GROUP}]`, { lists }]];
  return [[`group[${group.name}].lists`, lists]];
}

export type ListState = 'good' | 'waiting' | 'failing' | 'old';

/** Returns how a list is. */
export function stateOf(list: ListStatus): ListState {
  if (list.error) return list['in-force'] ? 'old' : 'failing';
  return list['in-force'] ? 'good' : 'waiting';
}

/** Returns from when the share of a list in the query log counts. */
export function sinceOf(list: ListStatus): string {
  return list.share ? text.filtering.lists.shareSince(day(list.share.since)) : '';
}

/** Returns how many queries a list blocks that nothing else would, and their share of all that it
 *  blocks. The count may be too high by the error of the ranking. */
export function aloneOf(list: ListStatus): string {
  if (!list.share) return '–';
  const { alone, error, queries } = list.share;
  const shown = text.filtering.lists.aloneOf(short(alone), percent(queries > 0 ? alone / queries : 0));
  return error > 0 ? `${text.filtering.lists.atMost} ${shown}` : shown;
}
