// What pages of zones share.

import { address, ProblemError } from '../../api/client';
import type { Problem, ZoneDifference, ZoneRecord, ZoneStatus, ZoneText } from '../../api/schema';
import { bare } from '../../format';
import { text } from '../../texts';

export const TONES = { served: 'good', 'out-of-date': 'warn', failed: 'bad' } as const satisfies Record<
  ZoneStatus['state'],
  string
>;

/** The part of the address of pools. */
export const POOLS = 'pools';

/** What distinguishes zones: their name, and the first item of their view, if they have one. */
type Identity = Pick<ZoneStatus, 'name' | 'view'>;

/** The fields of requests that choose a zone. */
export function asked({ name, view }: Identity): { name: string; view?: string } {
  return view[0] === undefined ? { name } : { name, view: view[0] };
}

/** The name of a zone, with the first item of its view. */
export function title({ name, view }: Identity): string {
  return view[0] === undefined ? bare(name) : `${bare(name)} · ${view[0]}`;
}

/** The address of a zone. A zone named like the part of pools keeps its last dot. */
export function zoneHref({ name, view }: Identity): string {
  const short = bare(name);
  const own = encodeURIComponent(short.toLowerCase() === POOLS ? `${short}.` : short);
  return view[0] === undefined ? `/zones/${own}` : `/zones/${own}/${encodeURIComponent(view[0])}`;
}

/** Reads a zone as a master file. The server sends its text in parts, one a line, and at the end a
 *  line with `done`, or a problem. */
export async function masterFile(zone: Identity): Promise<Blob> {
  const response = await fetch(address('/zones/export', asked(zone)), { credentials: 'same-origin' });
  if (!response.ok || !response.body) throw new ProblemError((await response.json()) as Problem);
  const parts: string[] = [];
  let rest = '';
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? '')).split('\n');
    rest = done ? '' : (lines.pop() ?? '');
    for (const line of lines.filter(Boolean)) {
      const part = JSON.parse(line) as Partial<ZoneText> | { done: unknown } | Problem;
      if ('done' in part) return new Blob(parts, { type: 'text/dns' });
      if (!('text' in part)) throw new ProblemError(part as Problem);
      parts.push(`${part.text}\n`);
    }
    if (done) throw new Error(text.problem.unexpected);
  }
}

/** The records of a name and type. */
export interface Rrset {
  /** Relative to the zone. */
  name: string;
  type: string;
  ttl: number | null;
  data: readonly string[];
}

/** Types that the filter offers. */
export const TYPES = ['A', 'AAAA', 'CAA', 'CNAME', 'DS', 'HTTPS', 'MX', 'NS', 'PTR', 'SOA', 'SRV', 'SVCB', 'TLSA', 'TXT'];

/** Types of records that signing makes. */
export const OF_SIGNING: ReadonlySet<string> = new Set(['RRSIG', 'NSEC', 'NSEC3', 'NSEC3PARAM']);

/** The states of a key in their order. */
export const KEY_STATES = ['prepared', 'published', 'submitted', 'confirmed', 'active', 'retired', 'leaving'];

/** Returns a name of a zone without the part that all have. */
export function relative(zone: string, name: string): string {
  if (name.toLowerCase() === zone.toLowerCase()) return '@';
  const end = `.${zone}`;
  return name.toLowerCase().endsWith(end.toLowerCase()) ? name.slice(0, -end.length) : name;
}

/** Returns the data of the records that were typed, one a line. A text record without quotes is
 *  one text, in strings of at most 255 octets. */
export function dataLines(type: string, typed: string): string[] {
  const lines = typed.split('\n').map((line) => line.trim()).filter(Boolean);
  const isText = type.trim().toUpperCase() === 'TXT';
  return lines.map((line) => (isText && !line.startsWith('"') && !line.startsWith('\\#') ? quoted(line) : line));
}

function quoted(line: string): string {
  const octets = [...new TextEncoder().encode(line)];
  const strings: string[] = [];
  for (let at = 0; at < octets.length; at += 255) {
    const escaped = octets.slice(at, at + 255).map((octet) => {
      if (octet < 32 || octet > 126) return `\\${String(octet).padStart(3, '0')}`;
      const character = String.fromCharCode(octet);
      return character === '"' || character === '\\' ? `\\${character}` : character;
    });
    strings.push(`"${escaped.join('')}"`);
  }
  return strings.join(' ');
}

/** Returns a difference as text: what is removed, then what is added. */
export function diffText(difference: ZoneDifference): string {
  const lines = (sign: string, records: readonly ZoneRecord[]): string[] =>
    records.map(({ name, ttl, type, data }) => `${sign}${name} ${ttl} ${type} ${data}`);
  return [...lines('-', difference.removed), ...lines('+', difference.added)].join('\n');
}
