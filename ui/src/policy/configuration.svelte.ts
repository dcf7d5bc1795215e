// The tables of the configuration, and changes of them that can be undone.

import { get, getTagged, post } from '../api/client';
import type { ConfigEdit } from '../api/schema';
import { session } from '../api/session.svelte';
import { toasts } from '../components/toasts.svelte';
import { text } from '../texts';
import { toml, type TomlTable, type TomlValue } from './toml';

export interface ListEntry {
  name: string;
  url?: string;
  file?: string;
  /** The zone that is transferred from primaries. */
  zone?: string;
  format: string;
  kind: 'block' | 'allow';
  /** None for a zone: its SOA record has the times. */
  refresh?: string;
  rewrites: boolean;
  tags: string[];
}
export interface GroupEntry {
  name: string;
  clients: string[];
  /** All lists without it. */
  lists?: string[];
  privacy?: string;
}
export interface ClientEntry {
  name: string;
  ids: string[];
  groups: string[];
  privacy?: string;
}
export interface RuleEntry {
  name: string;
  when: string;
  action: string;
  enabled: boolean;
  'log-only': boolean;
  priority: number;
  'time-zone'?: string;
  answer?: string;
  to?: string[];
  'min-secs'?: number;
  'max-secs'?: number;
  rps?: number;
  burst?: number;
  per?: string;
  over?: string;
  tag?: string;
}
export interface RecordEntry {
  name: string;
  type: string;
  values: string[];
  'ttl-secs': number;
  ptr: boolean;
}
export interface ForwardEntry {
  zone: string;
  upstreams?: string[];
  'resolv-conf'?: string;
  strategy?: string;
  ecs?: string;
  'case-randomisation'?: boolean;
  'timeout-min-ms'?: number;
  'timeout-max-ms'?: number;
}
export interface StubEntry {
  zone: string;
  servers: string[];
}
export interface ConfigTables {
  list: ListEntry[];
  group: GroupEntry[];
  client: ClientEntry[];
  rule: RuleEntry[];
  record: RecordEntry[];
  forward: ForwardEntry[];
  stub: StubEntry[];
  policy: {
    'time-zone': string;
    'block-answer': string;
    'block-firefox-dns': boolean;
    'block-private-relay': boolean;
  };
  server: { 'local-zones'?: string[] };
}

/** The group of clients that are in no other group. */
export const DEFAULT_GROUP = 'default';

/** A key and its value; null removes it. */
export type Edit = [key: string, value: TomlValue | null];

/** Returns changes as the API takes them. */
export function asEdits(edits: readonly Edit[]): ConfigEdit[] {
  return edits.map(([key, value]) => ({ key, value: value === null ? null : toml(value) }));
}

/** Returns the settings of a table without its name, for an edit of the whole table. */
export function unnamed(entry: object): TomlTable {
  const { name: _, ...rest } = entry as TomlTable & { name: string };
  return rest;
}

class Configuration {
  tables = $state.raw<ConfigTables | null>(null);
  revision = $state<number | null>(null);
  failure = $state<unknown>(null);

  /** Whether the user may see it at all: pages show less without. */
  get isReadable(): boolean {
    return session.may('config:read');
  }
  get isWritable(): boolean {
    return session.may('config:write') && this.isReadable;
  }

  /** All groups by name, with the one for clients without a group. */
  groups = $derived.by(() => {
    const own = this.tables?.group ?? [];
    if (own.some((one) => one.name === DEFAULT_GROUP)) return own;
    return [{ name: DEFAULT_GROUP, clients: [] } satisfies GroupEntry as GroupEntry, ...own];
  });

  /** Reads it. */
  async read(): Promise<void> {
    if (!this.isReadable) return;
    try {
      const found = await get('/config');
      const empty = { list: [], group: [], client: [], rule: [], record: [], forward: [], stub: [] };
      this.tables = { ...empty, ...found.tables } as unknown as ConfigTables;
      this.revision = found.revision ?? null;
      this.failure = null;
    } catch (error) {
      this.failure = error;
    }
  }

  /** Checks changes, and returns the difference that they make in the file. */
  async check(edits: readonly Edit[], signal?: AbortSignal): Promise<{ text: string; warnings: string[] }> {
    return post('/config/check', { edits: asEdits(edits) }, signal ? { signal } : {});
  }

  /** Makes changes, says so, and offers to undo all of them. Returns whether that worked. */
  async change(edits: readonly Edit[], message: string): Promise<boolean> {
    if (edits.length === 0) return true;
    const before = this.revision;
    try {
      const base = before === null ? {} : { base: before };
      const made = await post('/config/changes', { edits: asEdits(edits), by: {}, ...base });
      const undo = before === null ? undefined : () => this.#undo(before, made.revision);
      await this.read();
      toasts.done(made.probation ? `${message} ${text.policy.probation}` : message, undo);
    } catch (error) {
      toasts.failed(error);
      await this.read();
      return false;
    }
    return true;
  }

  /** Puts the revision before in force again, unless somebody has changed something since. */
  async #undo(before: number, made: number): Promise<void> {
    const { data, tag } = await getTagged('/config');
    if (data.revision !== made) {
      await this.read();
      throw new Error(text.policy.changedSince);
    }
    await post('/config/rollback', { number: before, by: {} }, { ifMatch: tag });
    await this.read();
    toasts.done(text.policy.undone);
  }
}

export const configuration = new Configuration();
