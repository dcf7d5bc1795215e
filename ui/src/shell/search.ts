// The search over everything. Pages add to it by a file `search.ts` of their own.

import type { IconName } from '../components/icons';
import { session } from '../api/session.svelte';
import { href, PAGES } from '../router.svelte';
import { text } from '../texts';

/** Something that was found. */
export interface Hit {
  icon: IconName;
  title: string;
  /** What it is. */
  hint: string;
  href: string;
}

/** What a page exports as `search` of its file `search.ts`. */
export type Search = (written: string, signal: AbortSignal) => Promise<Hit[]> | Hit[];

const found = import.meta.glob<{ search: Search }>('../pages/*/search.ts');
const MOST = 12;

function pages(written: string): Hit[] {
  const start = written.toLowerCase();
  return PAGES.filter((page) => session.may(page.scope))
    .filter((page) => text.pages[page.name].toLowerCase().includes(start))
    .map((page) => ({
      icon: page.icon,
      title: text.pages[page.name],
      hint: text.search.page,
      href: page.path,
    }));
}

/** A rule that would block a name: its editor shows what it would change. */
function ruleFor(name: string): Hit[] {
  if (!session.may('config:write') || !name.includes('.')) return [];
  const rule = { name: text.search.blockRule(name), when: `qname.under(${JSON.stringify(name)})` };
  return [
    {
      icon: 'filtering',
      title: rule.name,
      hint: text.search.wouldChange,
      href: href('/filtering/rules', { new: 'yes', ...rule }),
    },
  ];
}

function queries(written: string): Hit[] {
  if (!session.may('queries:read') || /\s/.test(written)) return [];
  const isAddress = /^(\d{1,3}(\.\d{1,3}){3}|[0-9a-f:]*:[0-9a-f:.]+)$/i.test(written);
  // A dot means a whole name; a word may be any part of one.
  const field = isAddress ? 'client' : written.includes('.') ? 'under' : 'contains';
  const { hint, blocked } = {
    client: { hint: text.search.ofClient, blocked: '' },
    under: { hint: text.search.below, blocked: text.search.blockedBelow },
    contains: { hint: text.search.containing, blocked: text.search.blockedContaining },
  }[field];
  return [
    { icon: 'queries', title: written, hint, href: href('/queries', { [field]: written }) },
    ...(isAddress
      ? []
      : [
          {
            icon: 'block' as const,
            title: written,
            hint: blocked,
            href: href('/queries', { [field]: written, kind: 'blocked' }),
          },
          ...ruleFor(written),
        ]),
  ];
}

/** Searches everything. What is found later is passed on as it arrives. */
export async function searchAll(
  written: string,
  signal: AbortSignal,
  show: (hits: Hit[]) => void,
): Promise<void> {
  let hits = [...pages(written), ...queries(written)];
  show(hits);
  const add = async (load: () => Promise<{ search: Search }>): Promise<void> => {
    const { search } = await load();
    const more = await search(written, signal);
    if (signal.aborted || more.length === 0) return;
    // What has a name comes before searches for the text.
    hits = [...hits.filter((one) => one.hint === text.search.page), ...more, ...hits.filter((one) => one.hint !== text.search.page)].slice(0, MOST);
    show(hits);
  };
  await Promise.allSettled(Object.values(found).map(add));
}
