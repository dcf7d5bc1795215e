// What the parts about pools share.

import type { AddressControl, PoolAddress, PoolStatus, ProbeReport } from '../../api/schema';
import { bare } from '../../format';
import { text } from '../../texts';

export type Tone = 'good' | 'warn' | 'bad' | 'plain';

/** The decisions that people take, in the order of their buttons. */
export const CONTROLS = ['auto', 'up', 'drain', 'down'] as const satisfies readonly AddressControl[];

/** The address of a pool. */
export function poolHref(name: string): string {
  return `/zones/pools/${encodeURIComponent(bare(name))}`;
}

/** Returns how many addresses answers may contain as healthy ones. */
export function usable(pool: PoolStatus): number {
  return pool.addresses.filter((one) => one.usable).length;
}

/** Returns the colour of a pool: no address is healthy, some are, or all. */
export function poolTone(pool: PoolStatus): Tone {
  const count = usable(pool);
  if (count === 0) return 'bad';
  return count < pool.addresses.length ? 'warn' : 'good';
}

/** Returns the state of an address in one word, with its colour: a decision of people comes first. */
export function standing(one: PoolAddress): { tone: Tone; word: string } {
  const t = text.pools;
  switch (one.control) {
    case 'up':
      return { tone: one.state === 'down' ? 'warn' : 'good', word: t.kept };
    case 'drain':
      return { tone: 'warn', word: t.draining };
    case 'down':
      return { tone: 'plain', word: t.takenOut };
    default:
      return { tone: ({ up: 'good', down: 'bad', unknown: 'plain' } as const)[one.state], word: t.states[one.state] };
  }
}

/** Returns the time of the latest change of health in a pool, if one is known. */
export function lastChange(pool: PoolStatus): number | null {
  const times = pool.addresses.flatMap(({ since }) => since ?? []);
  return times.length > 0 ? Math.max(...times) : null;
}

/** Returns how many of the last probes succeeded, for readers of screens and on hover. */
export function tally(history: readonly ProbeReport[]): string {
  const good = history.filter(({ result }) => result === 'success').length;
  return text.pools.tally(good, history.length);
}
