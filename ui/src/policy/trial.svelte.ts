// What a change would block and unblock among logged queries, before it is made.

import { get, isAborted, post, ProblemError } from '../api/client';
import type { ConfigEdit, DryRunFound } from '../api/schema';
import { session } from '../api/session.svelte';
import { asEdits, configuration, type Edit } from './configuration.svelte';

/** The stretch of the log that is judged. */
export type Stretch = 'day' | 'week' | 'all';

const SECONDS: Record<Stretch, number | null> = { day: 86_400, week: 604_800, all: null };
/** Names and clients of each kind of change. */
const MOST = 50;
const STORED = 'avocet-trial-first';

interface Proposal {
  edits: readonly ConfigEdit[];
  /** Makes the change, and returns whether that worked. */
  apply: () => Promise<boolean>;
  /** The user has decided. */
  onend: (isApplied: boolean) => void;
}

class Trial {
  proposal = $state.raw<Proposal | null>(null);
  found = $state.raw<DryRunFound | null>(null);
  failure = $state.raw<unknown>(null);
  isLogOff = $state(false);
  isApplying = $state(false);
  stretch = $state<Stretch>('week');
  /** The first second that was judged, for links to the queries. */
  from = $state<number | null>(null);
  #isFirst = $state(localStorage.getItem(STORED) === 'yes');
  #stop: AbortController | null = null;

  /** Whether the user may see what it shows. */
  get isOffered(): boolean {
    return session.may('config:read') && session.may('queries:read');
  }

  /** Whether each change is shown before it is made. */
  get isFirst(): boolean {
    return this.#isFirst && this.isOffered;
  }
  set isFirst(wanted: boolean) {
    this.#isFirst = wanted;
    localStorage.setItem(STORED, wanted ? 'yes' : 'no');
  }

  /** Makes changes as `configuration.change` does, after a look at them if the user wants one. */
  change(edits: readonly Edit[], message: string): Promise<boolean> {
    if (!this.isFirst || edits.length === 0) return configuration.change(edits, message);
    return this.#lookFirst(edits, message);
  }

  async #lookFirst(edits: readonly Edit[], message: string): Promise<boolean> {
    const isMade = await this.show(edits, message);
    // A switch that was moved goes back.
    if (!isMade) await configuration.read();
    return isMade;
  }

  /** Shows what changes would do, and returns whether the user has made them. */
  show(edits: readonly Edit[], message: string): Promise<boolean> {
    return this.open(asEdits(edits), () => configuration.change(edits, message));
  }

  /** Shows what changes would do. `apply` makes them. */
  open(edits: readonly ConfigEdit[], apply: () => Promise<boolean>): Promise<boolean> {
    return new Promise((onend) => {
      this.#end(false);
      this.proposal = { edits, apply, onend };
      void this.run();
    });
  }

  /** Judges the queries of the stretch. */
  async run(): Promise<void> {
    const { proposal } = this;
    if (!proposal) return;
    this.#stop?.abort();
    const stop = new AbortController();
    this.#stop = stop;
    const secs = SECONDS[this.stretch];
    this.from = secs === null ? null : Math.floor(Date.now() / 1000) - secs;
    [this.found, this.failure, this.isLogOff] = [null, null, false];
    const filter = this.from === null ? {} : { from: this.from };
    const request = { edits: [...proposal.edits], filter, limit: MOST, 'enforce-log-only': false };
    try {
      const found = await post('/policy/dry-run', request, { signal: stop.signal });
      if (!stop.signal.aborted) this.found = found;
    } catch (error) {
      if (isAborted(error)) return;
      const isOff = await isWithoutLog(error);
      if (stop.signal.aborted) return;
      [this.failure, this.isLogOff] = [error, isOff];
    }
  }

  /** Makes the change. A dry run that is not finished does not matter any more. */
  async apply(): Promise<void> {
    if (!this.proposal) return;
    this.isApplying = true;
    const isDone = await this.proposal.apply();
    this.isApplying = false;
    if (isDone) this.#end(true);
  }

  /** Leaves everything as it is. */
  dismiss(): void {
    this.#end(false);
  }

  #end(isApplied: boolean): void {
    this.#stop?.abort();
    const { proposal } = this;
    this.proposal = null;
    proposal?.onend(isApplied);
  }
}

/** Returns whether a request failed because queries are not logged. */
async function isWithoutLog(error: unknown): Promise<boolean> {
  if (!(error instanceof ProblemError) || error.problem.status !== 409) return false;
  try {
    const { tables } = await get('/config', { table: 'query-log' });
    return (tables as { 'query-log'?: { enabled?: boolean } })['query-log']?.enabled === false;
  } catch {
    return false;
  }
}

export const trial = new Trial();
