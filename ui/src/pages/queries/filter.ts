// The filter of queries: the fields of the API, as the address and the chips have them.

import type { OutcomeKind, QueryStage } from '../../api/schema';
import type { QueryOf } from '../../api/client';

export const FIELDS = [
  'name',
  'contains',
  'under',
  'client',
  'device',
  'group',
  'kind',
  'outcome',
  'type',
  'rcode',
  'rule',
  'list',
  'upstream',
  'from',
  'to',
] as const;
export type Field = (typeof FIELDS)[number];
export type Filter = Partial<Record<Field, string>>;

export const KINDS: OutcomeKind[] = [
  'answered',
  'blocked',
  'local',
  'rewritten',
  'failed',
  'refused',
  'dropped',
  'malformed',
];

export const STAGES: QueryStage[] = [
  'packet-hit',
  'rrset-hit',
  'stale',
  'resolved',
  'local',
  'special',
  'blocked',
  'rewritten',
  'limited',
  'dropped',
  'failed',
  'failure-hit',
  'refused',
  'not-recursive',
  'shed',
  'malformed',
  'ignored',
  'chaos',
];

export const TYPES = ['A', 'AAAA', 'HTTPS', 'CNAME', 'MX', 'TXT', 'PTR', 'SRV', 'NS', 'SOA', 'SVCB', 'DS', 'DNSKEY', 'CAA', 'NAPTR', 'TLSA', 'ANY'];
export const RCODES = ['NOERROR', 'NXDOMAIN', 'SERVFAIL', 'REFUSED', 'FORMERR', 'NOTIMP', 'BADVERS'];

/** Reads the filter of an address. */
export function filterOf(query: URLSearchParams): Filter {
  const filter: Filter = {};
  for (const field of FIELDS) {
    const value = query.get(field);
    if (value) filter[field] = value;
  }
  return filter;
}

/** Returns the fields for the API. */
export function asQuery(filter: Filter): QueryOf<'get', '/queries'> {
  const { from, to, ...rest } = filter;
  return {
    ...rest,
    ...(from ? { from: Number(from) } : {}),
    ...(to ? { to: Number(to) } : {}),
  } as QueryOf<'get', '/queries'>;
}

export interface Suggestion {
  field: Field;
  value: string;
}

/** Names that the configuration has. */
export interface Known {
  lists: string[];
  rules: string[];
  groups: string[];
  clients: string[];
  upstreams: string[];
}

const ADDRESS = /^(\d{1,3}(\.\d{1,3}){3}|[0-9a-f:]*:[0-9a-f:.]*)$/i;
const MOST = 9;

/** Returns the filter while a text is written that is no chip yet: queries of a client by a whole
 *  address, or else for names that have the text somewhere. */
export function withDraft(filter: Filter, written: string): Filter {
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(written)) return { ...filter, client: written };
  // A name in another alphabet is only known by its whole labels.
  const isPart = /^[\x21-\x7e]+$/.test(written) || /^\S*[\p{L}\p{N}]$/u.test(written);
  return isPart && !/[:/]/.test(written) ? { ...filter, contains: written } : filter;
}

/** Returns what a text may mean, the likeliest first. */
export function suggest(written: string, known: Known): Suggestion[] {
  const text = written.trim();
  if (text === '') return [];
  const found: Suggestion[] = [];
  const field = text.match(/^([a-z]+):(.+)$/);
  if (field && FIELDS.includes(field[1] as Field)) {
    return [{ field: field[1] as Field, value: (field[2] ?? '').trim() }];
  }
  const starts = (value: string): boolean => value.toLowerCase().startsWith(text.toLowerCase());
  if (ADDRESS.test(text)) found.push({ field: 'client', value: text });
  for (const value of KINDS.filter(starts)) found.push({ field: 'kind', value });
  if (text.length > 1) {
    for (const value of TYPES.filter((type) => type === text.toUpperCase())) {
      found.push({ field: 'type', value });
    }
  }
  for (const value of known.clients.filter(starts)) found.push({ field: 'device', value });
  for (const value of known.groups.filter(starts)) found.push({ field: 'group', value });
  for (const value of known.lists.filter(starts)) found.push({ field: 'list', value });
  for (const value of known.rules.filter(starts)) found.push({ field: 'rule', value });
  for (const value of known.upstreams.filter(starts)) found.push({ field: 'upstream', value });
  for (const value of RCODES.filter(starts)) found.push({ field: 'rcode', value });
  const names: Suggestion[] = [
    { field: 'contains', value: text },
    { field: 'under', value: text },
    { field: 'name', value: text },
  ];
  // A dot means a domain name; a word may also be anything that starts with it.
  const isName = text.includes('.') && !ADDRESS.test(text);
  const all = isName ? [...names, ...found] : [...found, ...names];
  if (!ADDRESS.test(text)) all.push({ field: 'device', value: text });
  const seen = new Set<string>();
  return all
    .filter(({ field: one, value }) => {
      const key = `${one} ${value}`;
      return !seen.has(key) && seen.add(key);
    })
    .slice(0, MOST);
}
