// The rows of the page: pages of the log, and new queries as they are answered.

import { get, isAborted, ProblemError } from '../../api/client';
import { liveQueries, type LiveStream } from '../../api/live';
import type { LogEntry } from '../../api/schema';
import { asQuery, type Filter } from './filter';

export interface Row {
  key: string;
  entry: LogEntry;
}

/** Rows of a page. The first is small, so that it is there at once. */
const FIRST_PAGE = 60;
const PAGE = 300;
/** Rows that live keeps while nobody scrolls: older ones are in the log. */
const LIVE_ROWS = 2000;
/** New rows that wait while somebody reads further down. */
const MOST_WAITING = 5000;
/** Milliseconds between two updates of the rows by new queries. */
const FLUSH = 200;
/** Pages in a row without a find before the user is asked. */
const MOST_EMPTY = 20;

function keyOf(entry: LogEntry): string {
  return `${entry['time-us']} ${entry.client ?? ''} ${entry.type} ${entry.name ?? ''}`;
}

export class Feed {
  rows = $state.raw<Row[]>([]);
  /** New rows that are not shown yet. */
  waiting = $state.raw<Row[]>([]);
  isLoading = $state(false);
  /** The log has no further query of the filter. */
  isComplete = $state(false);
  /** Queries that were examined for the rows. */
  examined = $state(0);
  skipped = $state(0);
  isOpen = $state(false);
  isLogOff = $state(false);
  failure = $state.raw<unknown>(null);
  damaged = $state.raw<string[]>([]);
  /** Whether new rows are shown at once. */
  isFollowing = true;

  #filter: Filter = {};
  #cursor: string | null = null;
  #seen = new Set<string>();
  #arrived: Row[] = [];
  #stream: LiveStream | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #abort = new AbortController();

  /** Begins with a filter until the returned function is called. */
  start(filter: Filter, isLive: boolean): () => void {
    this.#filter = filter;
    this.#cursor = null;
    this.#seen = new Set();
    this.#arrived = [];
    this.#abort = new AbortController();
    this.waiting = [];
    this.isComplete = false;
    this.isLogOff = false;
    this.examined = 0;
    this.skipped = 0;
    this.failure = null;
    this.isFollowing = true;
    if (isLive) this.#follow();
    void this.#load(FIRST_PAGE, true);
    return () => {
      this.#abort.abort();
      this.#stream?.close();
      this.#stream = undefined;
      this.isOpen = false;
      clearInterval(this.#timer);
    };
  }

  /** Loads older queries. */
  more(): void {
    if (!this.isLoading && !this.isComplete && !this.failure && this.rows.length > 0) {
      void this.#load(PAGE, false);
    }
  }

  /** Tries again after a failure. */
  retry(): void {
    this.failure = null;
    this.isLogOff = false;
    void this.#load(FIRST_PAGE, this.rows.length === 0);
  }

  /** Shows the rows that wait. */
  show(): void {
    if (this.waiting.length === 0) return;
    this.rows = [...this.waiting, ...this.rows];
    this.waiting = [];
  }

  async #load(limit: number, isFirst: boolean): Promise<void> {
    const { signal } = this.#abort;
    this.isLoading = true;
    try {
      for (let left = MOST_EMPTY; left > 0; left -= 1) {
        const query = { ...asQuery(this.#filter), limit, cursor: this.#cursor };
        const page = await get('/queries', query, { signal });
        const rows = page.queries.map((entry) => this.#row(entry)).filter((row) => row !== null);
        // The rows of the filter before stay until those of this one are there.
        this.rows = isFirst ? rows : [...this.rows, ...rows];
        isFirst = false;
        this.examined += page.examined;
        this.damaged = page.damaged.map((file) => file.file);
        this.#cursor = page.next ?? null;
        this.isComplete = !page.next;
        if (this.isComplete || rows.length > 0) break;
      }
      this.failure = null;
    } catch (error) {
      if (isAborted(error)) return;
      if (isFirst) this.rows = [];
      this.isLogOff = error instanceof ProblemError && error.problem.status === 409;
      if (!this.isLogOff) this.failure = error;
    } finally {
      if (!signal.aborted) this.isLoading = false;
    }
  }

  #row(entry: LogEntry): Row | null {
    const key = keyOf(entry);
    if (this.#seen.has(key)) return null;
    this.#seen.add(key);
    return { key, entry };
  }

  #follow(): void {
    const { from: _from, to: _to, ...query } = asQuery(this.#filter);
    this.#stream = liveQueries(query, {
      part: (line) => {
        if ('query' in line) {
          const row = this.#row(line.query);
          if (row) this.#arrived.push(row);
        } else if ('skipped' in line) {
          this.skipped += line.skipped;
        }
      },
      state: (isOpen) => (this.isOpen = isOpen),
    });
    this.#timer = setInterval(() => this.#flush(), FLUSH);
  }

  #flush(): void {
    if (this.#arrived.length === 0 || document.hidden) return;
    const added = this.#arrived.reverse();
    this.#arrived = [];
    if (!this.isFollowing) {
      this.waiting = [...added, ...this.waiting].slice(0, MOST_WAITING);
      return;
    }
    const rows = [...added, ...this.rows];
    if (rows.length > LIVE_ROWS) {
      for (const { key } of rows.slice(LIVE_ROWS)) this.#seen.delete(key);
      // The next page begins after the last row that is kept.
      const last = rows[LIVE_ROWS - 1]?.entry.id;
      if (last != null) this.#cursor = String(last);
      this.isComplete = false;
      rows.length = LIVE_ROWS;
    }
    this.rows = rows;
  }
}
