// Entries by name: their keys in the file, and the tree of domains.

import { isAborted } from '../../api/client';
import { bare } from '../../format';
import { parsed, type ConditionNode } from '../../policy/condition';
import {
  configuration,
  type ConfigTables,
  type RecordEntry,
} from '../../policy/configuration.svelte';

/** Returns the reverse name of an IPv4 or IPv6 address, without the last dot. */
function reverseName(address: string): string {
  if (address.includes('.') && !address.includes(':')) {
    return `${address.split('.').reverse().join('.')}.in-addr.arpa`;
  }
  const [head = '', tail] = address.split('::');
  const parts = (text: string): string[] => text.split(':').filter(Boolean);
  const [before, after] = [parts(head), parts(tail ?? '')];
  const gap = tail === undefined ? 0 : 8 - before.length - after.length;
  const groups = [...before, ...new Array<string>(Math.max(gap, 0)).fill('0'), ...after];
  const nibbles = groups.map((one) => one.padStart(4, '0')).join('');
  return `${[...nibbles].reverse().join('.')}.ip6.arpa`;
}

/** Returns the records of the file. Those in force also have the derived PTR records. */
export function ownRecords(records: readonly RecordEntry[]): RecordEntry[] {
  const derived = new Map<string, Set<string>>();
  for (const { name, type, values } of records) {
    if (type !== 'A' && type !== 'AAAA') continue;
    for (const value of values) {
      const names = derived.get(reverseName(value)) ?? new Set();
      derived.set(reverseName(value), names.add(bare(name)));
    }
  }
  return records.filter(({ name, type, values }) => {
    const [value] = values;
    const isDerived = type === 'PTR' && values.length === 1 && value !== undefined &&
      derived.get(bare(name))?.has(bare(value));
    return !isDerived;
  });
}

/** Returns the key of an entry as the file has it: with or without the last dot of its name. */
export async function keyOf(table: string, name: string, suffix: string, field: string): Promise<string> {
  const bareKey = `${table}[${bare(name)}${suffix}]`;
  const dotted = `${table}[${bare(name)}.${suffix}]`;
  try {
    // To remove a key that the entry may lack is refused in another way than a missing entry.
    await configuration.check([[`${bareKey}.${field}`, field === 'values' ? [] : null]]);
    return bareKey;
  } catch (error) {
    if (isAborted(error)) throw error;
    const isMissing = error instanceof Error && error.message.includes(`[${bare(name)}`) &&
      error.message.includes('is not in the file');
    return isMissing ? dotted : bareKey;
  }
}

export type Fact =
  | { kind: 'record'; type: string; text: string; href: string }
  | { kind: 'forward' | 'stub' | 'exception'; text: string; href: string }
  | { kind: 'local'; text: string; href: null }
  | { kind: 'rule'; action: string; text: string; href: string; enabled: boolean };

/** A domain with what is configured for it. */
export interface Domain {
  label: string;
  name: string;
  facts: Fact[];
  below: Map<string, Domain>;
}

const labelsOf = (name: string): string[] => bare(name).match(/(?:\\.|[^.\\])+/g) ?? [];

/** Returns the tree of all domains for which something is configured. */
export function treeOf(tables: ConfigTables): Domain {
  const root: Domain = { label: '.', name: '.', facts: [], below: new Map() };
  const at = (name: string): Domain => {
    let one = root;
    for (const label of labelsOf(name.toLowerCase()).reverse()) {
      const parent = one.name === '.' ? '' : `.${one.name}`;
      const next = one.below.get(label) ??
        { label, name: `${label}${parent}`, facts: [], below: new Map() };
      one.below.set(label, next);
      one = next;
    }
    return one;
  };
  for (const { name, type, values } of ownRecords(tables.record)) {
    const href = `/names?edit=${encodeURIComponent(`${bare(name)} ${type}`)}`;
    at(name).facts.push({ kind: 'record', type, text: values.join(', '), href });
  }
  for (const entry of tables.forward) {
    const isException = entry.zone.startsWith('!');
    const zone = isException ? entry.zone.slice(1) : entry.zone;
    const to = (entry.upstreams ?? []).join(', ') || (entry['resolv-conf'] ?? '');
    const href = `/names/forwarders?edit=${encodeURIComponent(entry.zone)}`;
    at(zone).facts.push({ kind: isException ? 'exception' : 'forward', text: to, href });
  }
  for (const { zone, servers } of tables.stub) {
    const href = '/names/forwarders';
    at(zone).facts.push({ kind: 'stub', text: servers.join(', '), href });
  }
  for (const zone of tables.server['local-zones'] ?? []) {
    at(zone).facts.push({ kind: 'local', text: '', href: null });
  }
  for (const { name, when, action, enabled } of tables.rule) {
    const tree = parsed(when);
    const href = `/filtering/rules/${encodeURIComponent(name)}`;
    for (const domain of tree ? domainsIn(tree) : []) {
      at(domain).facts.push({ kind: 'rule', action, text: name, href, enabled });
    }
  }
  return root;
}

/** Returns the domains that a condition tests. */
function domainsIn(node: ConditionNode): string[] {
  if (node.kind === 'text') return [];
  if (node.kind !== 'test') return node.items.flatMap(domainsIn);
  const isName = node.subject === 'qname' && (node.verb === 'under' || node.verb === 'is');
  return isName && !node.not ? node.values : [];
}
