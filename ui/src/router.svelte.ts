// Addresses of pages. Each page has its own, which can be linked and loaded again.

import type { Component } from 'svelte';
import type { AccessScope } from './api/schema';
import type { IconName } from './components/icons';

export type PageName =
  | 'overview'
  | 'queries'
  | 'devices'
  | 'connect'
  | 'filtering'
  | 'names'
  | 'zones'
  | 'resolver'
  | 'performance'
  | 'settings';

export interface Page {
  name: PageName;
  /** The first part of its address. */
  path: string;
  icon: IconName;
  /** What the user needs to see it. */
  scope: AccessScope;
}

/** All pages in the order of the navigation. A page exists if it has a folder in `pages`. */
const ALL: Page[] = [
  { name: 'overview', path: '/', icon: 'overview', scope: 'status:read' },
  { name: 'queries', path: '/queries', icon: 'queries', scope: 'queries:read' },
  { name: 'devices', path: '/devices', icon: 'devices', scope: 'queries:read' },
  { name: 'connect', path: '/connect', icon: 'link', scope: 'status:read' },
  { name: 'filtering', path: '/filtering', icon: 'filtering', scope: 'status:read' },
  { name: 'names', path: '/names', icon: 'names', scope: 'config:read' },
  { name: 'zones', path: '/zones', icon: 'zones', scope: 'status:read' },
  { name: 'resolver', path: '/resolver', icon: 'resolver', scope: 'status:read' },
  { name: 'performance', path: '/performance', icon: 'performance', scope: 'status:read' },
  { name: 'settings', path: '/settings', icon: 'settings', scope: 'status:read' },
];

/** The pages, each in a file of its own that is loaded when it is opened. */
const found = import.meta.glob<PageModule>('./pages/*/index.svelte');

interface PageModule {
  default: Component;
  /** Asks for what the page shows, before it is shown. */
  prepare?: () => void;
}

function loader(page: Page): (() => Promise<PageModule>) | undefined {
  return found[`./pages/${page.name}/index.svelte`];
}

export const PAGES = ALL.filter((page) => loader(page));

/** Loads a page. */
export async function load(page: Page): Promise<Component> {
  const module = await loader(page)?.();
  if (!module) throw new Error(`there is no page ${page.name}`);
  return module.default;
}

/** Loads a page, and asks for what it shows. A page that is missing fails when it is shown. */
export async function prepare(page: Page): Promise<void> {
  const module = await loader(page)?.().catch(() => undefined);
  module?.prepare?.();
}

class Route {
  /** The path of the address. */
  path = $state(location.pathname);
  /** The query of the address. */
  search = $state(location.search);

  /** The page at the address. */
  page = $derived(
    PAGES.find((page) => page.path === '/' ? this.path === '/' : isBelow(this.path, page.path)),
  );
  /** The parts of the path below the page, such as the name of a device. */
  rest = $derived(
    this.path.slice(this.page?.path.length ?? 0).split('/').filter(Boolean).map(decoded),
  );
  /** The fields of the query. */
  query = $derived(new URLSearchParams(this.search));

  /** Reads the address again. */
  update(): void {
    this.path = location.pathname;
    this.search = location.search;
  }
}

function isBelow(path: string, page: string): boolean {
  return path === page || path.startsWith(`${page}/`);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = new Route();

/** Goes to an address of this site. With `replace`, it takes the place of the present one. */
export function go(href: string, options: { replace?: boolean } = {}): void {
  const here = `${location.pathname}${location.search}`;
  if (href !== here) {
    if (options.replace) history.replaceState(null, '', href);
    else history.pushState(null, '', href);
  }
  route.update();
  if (!options.replace) scrollTo(0, 0);
}

/** Returns the address of a page with fields in its query. */
export function href(path: string, query: Record<string, string | number | null | undefined> = {}): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') fields.set(name, String(value));
  }
  const all = fields.toString();
  return all ? `${path}?${all}` : path;
}

/** Makes links of this site load no page, and the buttons of the browser go back and forth. */
export function listen(): void {
  addEventListener('popstate', () => route.update());
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest('a');
    if (!link || link.target || link.hasAttribute('download')) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || /^\/(api|metrics|health|ready)\b/.test(url.pathname)) return;
    event.preventDefault();
    go(`${url.pathname}${url.search}`);
  });
}
