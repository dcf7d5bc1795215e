// What can be done about a query. Each has an undo.

import { post } from '../../api/client';
import type { LogEntry, Scope } from '../../api/schema';
import { doWithUndo } from '../../components/toasts.svelte';
import { bare, duration } from '../../format';
import { text } from '../../texts';

/** Returns the clients that a grant for the client of a query is for. */
export function scopeOf(entry: LogEntry): Scope {
  if (entry['client-name']) return { client: entry['client-name'] };
  return entry.client ? { address: entry.client } : 'all';
}

/** Allows a name for a while. */
export function grant(name: string, secs: number, scope: Scope, onchange: () => void): Promise<boolean> {
  const set = (length: number): Promise<unknown> =>
    post('/policy/grant', { name, secs: length, scope }).then(onchange);
  const message = text.queries.granted(bare(name), duration(secs));
  return doWithUndo(
    () => set(secs),
    message,
    () => set(0),
  );
}

async function change(edits: { key: string; value?: string }[]): Promise<void> {
  await post('/config/changes', { edits, by: {} });
}

/** Adds a rule for a name and the names below it. It comes before all lists, and after the rules of
 *  the file: where one of these decided, it has to be changed itself. */
export function decide(
  name: string,
  action: 'allow' | 'block',
  onchange: () => void,
): Promise<boolean> {
  const shown = bare(name);
  const key = `rule[${action} ${shown}]`;
  // Strings of JSON are strings of TOML and of conditions, too.
  const when = JSON.stringify(`qname.under(${JSON.stringify(shown)})`);
  const value = `{ when = ${when}, action = "${action}" }`;
  const message = action === 'allow' ? text.queries.allowed(shown) : text.queries.nowBlocked(shown);
  return doWithUndo(
    () => change([{ key, value }]).then(onchange),
    message,
    () => change([{ key }]).then(onchange),
  );
}

/** Returns a name as one word of a shell. */
function quoted(word: string): string {
  return /^[\w.:@/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Returns the command that sends the same query. */
export function asDig(entry: LogEntry, server: string): string {
  const tcp = entry.transport === 'tcp' ? ' +tcp' : '';
  const dnssec = entry.flags.includes('do') ? ' +dnssec' : '';
  return `dig @${server} ${quoted(entry.name ?? '.')} ${entry.type}${tcp}${dnssec}`;
}

/** Returns the command that explains the query. */
export function asWhy(entry: LogEntry): string {
  const client = entry.client ? ` --client ${quoted(entry.client)}` : '';
  const at = Math.floor(entry['time-us'] / 1e6);
  return `avocet why ${quoted(entry.name ?? '.')} --type ${entry.type}${client} --at ${at}`;
}

/** Copies a text. Outside of HTTPS and loopback, browsers have only the older way. */
export async function copy(content: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(content);
    return;
  }
  const area = document.createElement('textarea');
  area.value = content;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
