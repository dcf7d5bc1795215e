// Settings in the search over everything: the keys of the configuration, by their names.

import { session } from '../../api/session.svelte';
import { href } from '../../router.svelte';
import type { Hit } from '../../shell/search';
import { text } from '../../texts';
import { TABLES } from './model';

const MOST = 5;
const FEWEST_LETTERS = 2;

/** Returns the keys whose path has the text. */
export function search(written: string): Hit[] {
  if (!session.may('config:read') || written.length < FEWEST_LETTERS) return [];
  const wanted = written.toLowerCase().replaceAll(' ', '-');
  return TABLES.filter((table) => !table.isRepeated)
    .flatMap((table) => table.keys.map((key) => ({ table, path: `${table.name}.${key.name}` })))
    .filter(({ path }) => path.includes(wanted))
    .slice(0, MOST)
    .map(({ table, path }) => ({
      icon: 'settings',
      title: path,
      hint: text.search.setting,
      href: href(`/settings/configuration/${table.name}`, { search: path }),
    }));
}
