// Hosted zones in the search over everything, by name.

import { get } from '../../api/client';
import { session } from '../../api/session.svelte';
import { bare } from '../../format';
import type { Hit } from '../../shell/search';
import { text } from '../../texts';

const MOST = 4;

/** Returns the zones whose name has the text. */
export async function search(written: string, signal: AbortSignal): Promise<Hit[]> {
  if (!session.may('status:read')) return [];
  const wanted = written.toLowerCase();
  const { zones } = await get('/zones', {}, { signal });
  return zones
    .map(({ name }) => bare(name))
    .filter((name) => name.toLowerCase().includes(wanted))
    .slice(0, MOST)
    .map((name) => ({
      icon: 'zones',
      title: name,
      hint: text.search.zone,
      href: `/zones/${encodeURIComponent(name)}`,
    }));
}
