// What pages of zones share.

import { address, ProblemError } from '../../api/client';
import type { Problem, ZoneStatus, ZoneText } from '../../api/schema';
import { bare } from '../../format';
import { text } from '../../texts';

export const TONES = { served: 'good', 'out-of-date': 'warn', failed: 'bad' } as const satisfies Record<
  ZoneStatus['state'],
  string
>;

/** The part of the address of pools. */
export const POOLS = 'pools';

/** The address of a zone. A zone named like the part of pools keeps its last dot. */
export function zoneHref(name: string): string {
  const short = bare(name);
  return `/zones/${encodeURIComponent(short.toLowerCase() === POOLS ? `${short}.` : short)}`;
}

/** Reads a zone as a master file. The server sends its text in parts, one a line, and at the end a
 *  line with `done`, or a problem. */
export async function masterFile(name: string): Promise<Blob> {
  const response = await fetch(address('/zones/export', { name }), { credentials: 'same-origin' });
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
