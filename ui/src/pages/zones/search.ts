// Hosted zones and pools in the search over everything, by name or address.

import { get } from '../../api/client';
import { session } from '../../api/session.svelte';
import { bare } from '../../format';
import type { Hit } from '../../shell/search';
import { text } from '../../texts';

import { poolHref } from './pools';
import { title, zoneHref } from './zones';

const MOST = 4;

/** Returns the zones and pools whose name has the text, and the pools with an address that has it. */
export async function search(written: string, signal: AbortSignal): Promise<Hit[]> {
  if (!session.may('status:read')) return [];
  const wanted = written.toLowerCase();
  const has = (name: string): boolean => bare(name).toLowerCase().includes(wanted);
  const [{ zones }, { pools }] = await Promise.all([
    get('/zones', {}, { signal }),
    get('/pools', {}, { signal }),
  ]);
  const hits = [
    ...zones
      .filter(({ name }) => has(name))
      .slice(0, MOST)
      .map((zone) => ({ name: title(zone), hint: text.search.zone, href: zoneHref(zone) })),
    ...pools
      .filter(({ name, addresses }) => has(name) || addresses.some(({ address }) => has(address)))
      .slice(0, MOST)
      .map(({ name }) => ({ name, hint: text.search.pool, href: poolHref(name) })),
  ];
  return hits.map(({ name, hint, href }) => ({ icon: 'zones', title: bare(name), hint, href }));
}
