// Devices in the search over everything: the clients of the configuration, by name or identifier.

import { configuration } from '../../policy/configuration.svelte';
import type { Hit } from '../../shell/search';
import { text } from '../../texts';

const MOST = 4;

/** Returns the devices whose name or identifier has the text. */
export async function search(written: string): Promise<Hit[]> {
  if (!configuration.isReadable) return [];
  if (!configuration.tables) await configuration.read();
  const wanted = written.toLowerCase();
  return (configuration.tables?.client ?? [])
    .filter(({ name, ids }) => [name, ...ids].some((one) => one.toLowerCase().includes(wanted)))
    .slice(0, MOST)
    .map(({ name }) => ({
      icon: 'devices',
      title: name,
      hint: text.search.device,
      href: `/devices/${encodeURIComponent(name)}`,
    }));
}
