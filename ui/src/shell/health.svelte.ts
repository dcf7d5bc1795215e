// What waits for the user: the health of the server with its warnings, and requests for access from
// the block page. Both are read again every half minute.

import { get, isAborted, post } from '../api/client';
import type { AccessRequest } from '../api/schema';
import { session } from '../api/session.svelte';
import { toasts } from '../components/toasts.svelte';
import { bare, duration } from '../format';
import { text } from '../texts';
import { whenIdle } from './idle';

const INTERVAL = 30_000;

/** For how long a request may be granted. */
export const MINUTES = [15, 45, 120] as const;
export type Minutes = (typeof MINUTES)[number];

/** A request for access, with the group for which the user may answer it. */
export interface Asked extends AccessRequest {
  group: string | null;
}

/** Returns the groups whose requests the user sees: `null` is all of them. */
function groupsSeen(): (string | null)[] {
  const limits = session.report?.limits;
  if (!session.may('queries:read') || limits?.zones?.length) return [];
  return limits?.groups?.length ? limits.groups : [null];
}

class Health {
  warnings = $state<string[]>([]);
  isReached = $state(true);
  asked = $state.raw<Asked[]>([]);

  /** Reads it now and then until the returned function is called. */
  watch(): () => void {
    const read = (): void => {
      if (document.hidden) return;
      get('/health').then(
        (health) => {
          this.warnings = health.warnings;
          this.isReached = true;
        },
        (error: unknown) => {
          if (!isAborted(error)) this.isReached = false;
        },
      );
      // What fails here is shown by the health.
      this.readAsked().catch(() => {});
    };
    const stop = whenIdle(read);
    const timer = setInterval(read, INTERVAL);
    return () => {
      stop();
      clearInterval(timer);
    };
  }

  /** Reads the requests for access. */
  async readAsked(): Promise<void> {
    const parts = await Promise.all(
      groupsSeen().map(async (group) => {
        const { requests } = await get('/policy/requests', { group });
        return requests.map((one): Asked => ({ ...one, group }));
      }),
    );
    const byId = new Map(parts.flat().map((one) => [one.id, one]));
    this.asked = [...byId.values()].sort((a, b) => a.at - b.at);
  }

  /** Allows the name that a client asked for. */
  async grant(one: Asked, minutes: Minutes): Promise<void> {
    const { id, group, name } = one;
    // A grant of no time ends it, for the same client.
    const scope = one['client-name'] ? { client: one['client-name'] } : { address: one.client };
    const end = async (): Promise<void> => void (await post('/policy/grant', { name, secs: 0, scope }));
    const message = text.requests.granted(bare(name), whom(one), duration(minutes * 60));
    // Users with limits grant to groups only: theirs has no undo.
    const undo = group === null ? end : undefined;
    await this.#answer(() => post('/policy/requests/grant', { id, minutes, group }), message, undo);
  }

  /** Refuses what a client asked for. */
  async refuse(one: Asked): Promise<void> {
    const { id, group } = one;
    const message = text.requests.refused(bare(one.name), whom(one));
    await this.#answer(() => post('/policy/requests/refuse', { id, group }), message);
  }

  async #answer(work: () => Promise<unknown>, message: string, undo?: () => Promise<void>): Promise<void> {
    try {
      await work();
      toasts.done(message, undo);
    } catch (error) {
      toasts.failed(error);
    }
    await this.readAsked().catch(() => {});
  }
}

/** Returns the client of a request as people know it. */
export function whom(one: Asked): string {
  return one['client-name'] ?? one.client;
}

export const health = new Health();
