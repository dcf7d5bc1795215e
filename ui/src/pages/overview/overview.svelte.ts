// What the overview shows, read again now and then.

import { get, isAborted, ProblemError } from '../../api/client';
import type {
  AnchorsReport,
  LogEntry,
  LogOverview,
  LogSteps,
  OutcomeKind,
  PauseInForce,
  Revisions,
  ServerStatus,
} from '../../api/schema';
import { session } from '../../api/session.svelte';
import { painted } from '../../components/paint';
import { interval, type Range } from './range';

/** The kinds of outcome from the bottom of the chart to its top. */
export const KINDS: OutcomeKind[] = [
  'answered',
  'local',
  'rewritten',
  'blocked',
  'refused',
  'dropped',
  'failed',
  'malformed',
];
/** Kinds that the legend always has. */
const MAIN: OutcomeKind[] = ['answered', 'blocked'];
/** Texts of each ranking. */
const TEXTS = 8;
/** Blocked queries that the overview shows. */
const LATEST = 6;
/** Milliseconds between two looks at the counts of the server, and the looks that live keeps. */
const LIVE_PAUSE = 2000;
const LIVE_LOOKS = 91;
/** Revisions and anchors change rarely: they are read with each n-th refresh. */
const RARELY = 6;
/** Seconds for which prepared replies are fresh. */
const MOST_AGE = 10;

export type Counts = Record<OutcomeKind, number>;

export interface Look {
  at: number;
  counts: Counts;
  fromCache: number;
}

function look(status: ServerStatus, at: number): Look {
  const { queries } = status;
  const counts = {
    answered: queries['from-cache'] + queries.resolved,
    local: queries.local,
    rewritten: queries.rewritten,
    blocked: queries.blocked,
    refused: queries.refused,
    failed: queries.failed,
    dropped: 0,
    malformed: 0,
  };
  return { at, counts, fromCache: queries['from-cache'] };
}

/** Returns the sum of all kinds. */
export function total(counts: Counts): number {
  return KINDS.reduce((sum, kind) => sum + counts[kind], 0);
}

/** Returns the kinds that a chart shows: the main ones and those with a count. */
export function shownKinds(all: readonly Counts[]): OutcomeKind[] {
  return KINDS.filter((kind) => MAIN.includes(kind) || all.some((counts) => counts[kind] > 0));
}

/** Waits for counts of the query log; null if it is off. */
async function logged<T>(reply: Promise<T>): Promise<T | null> {
  try {
    return await reply;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.problem.status !== 409) throw error;
    return null;
  }
}

/** Asks for what each refresh reads. */
async function ask({ from, to, step }: Range, signal?: AbortSignal) {
  const names = session.may('queries:read');
  const blocked = { kind: 'blocked', limit: LATEST } as const;
  const options = signal ? { signal } : {};
  const reads = [
    () => get('/status', {}, options),
    () => logged(get('/series', { from, to, step }, options)),
    () => (names ? logged(get('/statistics', { from, to, limit: TEXTS }, options)) : null),
    () => (names ? logged(get('/queries', blocked, options)) : null),
  ] as const;
  // With limits, the server counts in the log, where few searches have a place.
  return session.isLimited
    ? ([await reads[0](), await reads[1](), await reads[2](), await reads[3]()] as const)
    : Promise.all([reads[0](), reads[1](), reads[2](), reads[3]()]);
}

/** The replies of the first refresh, if the page asked for them before it is shown. */
let prepared: { range: Range; replies: ReturnType<typeof ask> } | null = null;

/** Asks for the first refresh. */
export function prepare(range: Range): void {
  const replies = ask(range);
  // The refresh reports what fails.
  replies.catch(() => {});
  prepared = { range, replies };
}

/** Takes the prepared replies, if they are about a range. */
function takePrepared(range: Range): ReturnType<typeof ask> | null {
  const found = prepared;
  prepared = null;
  if (found?.range.name !== range.name) return null;
  const isFresh = (['from', 'to'] as const).every((end) => Math.abs(range[end] - found.range[end]) < MOST_AGE);
  return isFresh ? found.replies : null;
}

export class Overview {
  status = $state.raw<ServerStatus | null>(null);
  statistics = $state.raw<LogOverview | null>(null);
  series = $state.raw<LogSteps | null>(null);
  revisions = $state.raw<Revisions | null>(null);
  anchors = $state.raw<AnchorsReport | null>(null);
  /** The latest blocked queries, if the user may see queries. */
  latest = $state.raw<LogEntry[]>([]);
  pauses = $state.raw<PauseInForce[]>([]);
  /** Names of clients by their addresses. */
  clients = $state.raw<ReadonlyMap<string, string>>(new Map());
  looks = $state.raw<Look[]>([]);
  failure = $state.raw<unknown>(null);
  isLogOff = $state(false);
  #reads = 0;

  /** Reads until the returned function is called. */
  watch(range: () => Range): () => void {
    const abort = new AbortController();
    const { signal } = abort;
    let timer: ReturnType<typeof setTimeout>;
    const isLive = range().name === 'live';
    const refresh = async (): Promise<void> => {
      if (!document.hidden) await this.#read(range(), signal);
      const pause = interval(range());
      if (!signal.aborted && pause !== null) timer = setTimeout(refresh, pause);
    };
    void refresh();
    const live = isLive ? setInterval(() => void this.#look(signal), LIVE_PAUSE) : undefined;
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearInterval(live);
    };
  }

  async #read(range: Range, signal: AbortSignal): Promise<void> {
    const isRare = this.#reads % RARELY === 0;
    this.#reads += 1;
    try {
      const replies = takePrepared(range) ?? ask(range, signal);
      const [status, series, statistics, latest] = await replies;
      if (signal.aborted) return;
      this.status = status;
      this.series = series;
      this.isLogOff = series === null;
      this.statistics = statistics;
      this.latest = latest?.queries ?? [];
      this.failure = null;
      if (isRare) {
        // It is below the window.
        await painted();
        if (signal.aborted) return;
        [this.revisions, this.anchors] = await Promise.all([
          get('/config/revisions', { limit: 8 }, { signal }),
          get('/trust/anchors', {}, { signal }),
          this.readPauses(signal),
          this.#readClients(signal),
        ]);
      }
    } catch (error) {
      if (!isAborted(error)) this.failure = error;
    }
  }

  /** Reads which clients have a pause. */
  async readPauses(signal?: AbortSignal): Promise<void> {
    this.pauses = (await get('/policy', {}, signal ? { signal } : {})).pauses;
  }

  /** Reads the names of clients: those of the configuration, or those in the latest queries. */
  async #readClients(signal: AbortSignal): Promise<void> {
    if (!session.may('config:read')) {
      this.clients = new Map(
        this.latest.flatMap((one) => (one.client && one['client-name'] ? [[one.client, one['client-name']]] : [])),
      );
      return;
    }
    const { entries } = await get('/clients', {}, { signal });
    const owned = entries.flatMap(({ settings: { name, ids } }) => ids.map((id) => [id, name] as const));
    this.clients = new Map(owned);
  }

  async #look(signal: AbortSignal): Promise<void> {
    if (document.hidden) return;
    try {
      const status = await get('/status', {}, { signal });
      this.status = status;
      const one = look(status, Date.now() / 1000);
      const last = this.looks.at(-1);
      // A restart counts from zero again.
      const isGoing = last && total(last.counts) <= total(one.counts) && one.at - last.at < 15;
      this.looks = [...(isGoing ? this.looks : []), one].slice(-LIVE_LOOKS);
    } catch (error) {
      if (!isAborted(error)) this.failure = error;
    }
  }
}

export interface Rates {
  times: number[];
  counts: Counts[];
}

/** Returns the queries a second between looks. The window is full from the start, so that the bars
 *  do not change their width. */
export function rates(looks: readonly Look[]): Rates {
  const result: Rates = { times: [], counts: [] };
  const end = Math.floor((looks.at(-1)?.at ?? Date.now() / 1000) / 2) * 2;
  const zero = Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Counts;
  const missing = LIVE_LOOKS - Math.max(looks.length, 1);
  const begin = end - (LIVE_LOOKS - 1) * 2;
  for (let at = 0; at < missing; at += 1) {
    result.times.push(begin + at * 2);
    result.counts.push(zero);
  }
  for (let at = 1; at < looks.length; at += 1) {
    const [before, now] = [looks[at - 1], looks[at]];
    if (!before || !now) continue;
    const secs = Math.max(0.5, now.at - before.at);
    const entries = KINDS.map((kind) => [kind, (now.counts[kind] - before.counts[kind]) / secs]);
    result.times.push(begin + (missing + at - 1) * 2);
    result.counts.push(Object.fromEntries(entries) as Counts);
  }
  return result;
}
