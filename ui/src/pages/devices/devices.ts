// Devices: the clients of the configuration, and the addresses that sent queries.

import type { LogEntry, LoggedClient, PauseInForce, Scope } from '../../api/schema';
import type { ClientEntry, ConfigTables, Edit, GroupEntry } from '../../policy/configuration.svelte';
import { unnamed } from '../../policy/configuration.svelte';

/** A device as the page shows it. */
export interface Device {
  /** Its name, or its address without one: the last part of its address in the interface. */
  key: string;
  /** The client of the configuration. */
  entry: ClientEntry | null;
  name: string | null;
  addresses: string[];
  groups: string[];
  queries: number;
  blocked: number;
  /** The Unix second of its first query that is known. */
  firstSeen: number | null;
  /** The Unix second of its latest query that is known. */
  lastSeen: number | null;
}

/** What a pause needs to know of a device. */
export type Pausable = Pick<Device, 'key' | 'name' | 'addresses'>;

/** What is known of an address. */
interface Seen {
  name: string | null;
  groups: string[];
  at: number;
}

export interface Sources {
  tables: ConfigTables | null;
  /** Queries by address. */
  counts: ReadonlyMap<string, number>;
  blocked: ReadonlyMap<string, number>;
  recent: readonly LogEntry[];
  /** When each client was seen. */
  clients: readonly LoggedClient[];
}

const isAddress = (text: string): boolean => /^[\d.]+$|:/.test(text) && !text.includes('/');

/** Returns all devices, those with the most queries first. */
export function devicesOf({ tables, counts, blocked, recent, clients }: Sources): Device[] {
  const seen = new Map<string, Seen>();
  for (const { client, 'client-name': name, groups, 'time-us': at } of recent) {
    if (client && !seen.has(client)) seen.set(client, { name: name ?? null, groups, at: at / 1e6 });
  }
  const owners = new Map<string, string>();
  for (const entry of tables?.client ?? []) for (const id of entry.ids) owners.set(id, entry.name);
  const found = new Map<string, Device>();
  const device = (key: string, name: string | null): Device => {
    let one = found.get(key);
    if (!one) {
      const entry = tables?.client.find((client) => client.name === name) ?? null;
      const groups = entry ? groupsOf(entry, tables?.group ?? []) : [];
      one = { key, entry, name, addresses: [], groups, queries: 0, blocked: 0, firstSeen: null, lastSeen: null };
      found.set(key, one);
    }
    return one;
  };
  for (const entry of tables?.client ?? []) {
    device(entry.name, entry.name).addresses.push(...entry.ids.filter(isAddress));
  }
  for (const address of new Set([...counts.keys(), ...seen.keys()])) {
    const facts = seen.get(address);
    const name = owners.get(address) ?? facts?.name ?? null;
    const one = device(name ?? address, name);
    if (!one.addresses.includes(address)) one.addresses.push(address);
    one.queries += counts.get(address) ?? 0;
    one.blocked += blocked.get(address) ?? 0;
    if (facts) one.lastSeen = Math.max(one.lastSeen ?? 0, facts.at);
    const groups = tables ? groupsOfAddress(address, facts?.groups ?? [], tables.group) : facts?.groups;
    one.groups = [...new Set([...one.groups, ...(groups ?? [])])].filter((group) => group !== 'default');
  }
  for (const { client, 'client-name': name, first, last } of clients) {
    const one = found.get(owners.get(client) ?? name ?? client);
    if (!one) continue;
    one.firstSeen = Math.min(one.firstSeen ?? first, first);
    one.lastSeen = Math.max(one.lastSeen ?? last, last);
  }
  return [...found.values()].sort(
    (a, b) => b.queries - a.queries || (b.lastSeen ?? 0) - (a.lastSeen ?? 0) || a.key.localeCompare(b.key),
  );
}

/** Returns the groups that name a client, or that it names. */
export function groupsOf(entry: ClientEntry, groups: readonly GroupEntry[]): string[] {
  const own = [entry.name, ...entry.ids];
  const naming = groups.filter((group) => group.clients.some((one) => own.includes(one)));
  return [...new Set([...entry.groups, ...naming.map((group) => group.name)])];
}

/** Returns the groups that name an address. Those with a network count if the address was in them at
 *  its latest query. */
function groupsOfAddress(address: string, then: readonly string[], groups: readonly GroupEntry[]): string[] {
  const hasNetwork = (group: GroupEntry): boolean => group.clients.some((one) => one.includes('/'));
  return groups
    .filter((one) => one.clients.includes(address) || (then.includes(one.name) && hasNetwork(one)))
    .map((one) => one.name);
}

/** Returns the edits that put a device into a group, or take it out. */
export function grouped(device: Device, group: GroupEntry, on: boolean): Edit[] {
  const { entry } = device;
  const own = entry ? [entry.name, ...entry.ids] : device.addresses;
  const rest = group.clients.filter((one) => !own.includes(one));
  const edits: Edit[] = [];
  if (entry) {
    const groups = entry.groups.filter((one) => one !== group.name);
    if (on) groups.push(group.name);
    if (on !== entry.groups.includes(group.name)) edits.push([`client[${entry.name}].groups`, groups]);
    if (!on && rest.length < group.clients.length) edits.push([`group[${group.name}].clients`, rest]);
  } else {
    edits.push([`group[${group.name}].clients`, on ? [...rest, ...own] : rest]);
  }
  return edits;
}

/** Returns the edits that give a device a name. */
export function renamed(device: Device, name: string, tables: ConfigTables): Edit[] {
  const { entry } = device;
  if (!entry) {
    const groups = device.groups.filter((one) => tables.group.some((group) => group.name === one));
    return [[`client[${name}]`, { name, ids: device.addresses, ...(groups.length > 0 ? { groups } : {}) }]];
  }
  const edits = tables.group.filter((group) => group.clients.includes(entry.name)).map((group): Edit => [
    `group[${group.name}].clients`,
    group.clients.map((one) => (one === entry.name ? name : one)),
  ]);
  return [...edits, [`client[${entry.name}].name`, name]];
}

/** Returns the edits that make another client, or an address, the same device. */
export function merged(entry: ClientEntry, other: string, tables: ConfigTables): Edit[] {
  const from = tables.client.find((client) => client.name === other && client.name !== entry.name);
  const key = `client[${entry.name}]`;
  if (!from) return [[`${key}.ids`, [...new Set([...entry.ids, other])]]];
  const edits: Edit[] = [];
  for (const group of tables.group) {
    if (!group.clients.includes(from.name)) continue;
    const clients = group.clients.map((one) => (one === from.name ? entry.name : one));
    edits.push([`group[${group.name}].clients`, [...new Set(clients)]]);
  }
  const groups = [...new Set([...entry.groups, ...from.groups])];
  return [
    ...edits,
    [`client[${from.name}]`, null],
    [key, { ...unnamed(entry), name: entry.name, ids: [...new Set([...entry.ids, ...from.ids])], groups }],
  ];
}

/** Returns the clients that a pause of a device is for. */
export function scopeOf(device: Pausable): Scope {
  if (device.name) return { client: device.name ?? device.key };
  return { address: device.addresses[0] ?? device.key };
}

/** Returns the pause that is for this device alone. */
export function pauseOf(device: Pausable, pauses: readonly PauseInForce[]): PauseInForce | undefined {
  return pauses.find(({ scope }) => {
    if (typeof scope === 'string') return false;
    if ('client' in scope) return scope.client === device.name;
    return 'address' in scope && device.addresses.includes(scope.address);
  });
}
