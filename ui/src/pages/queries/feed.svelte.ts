// The rows of the page: pages of the log, and above them new queries as they are answered. However
// far somebody scrolls, the number of rows in memory is bounded.

import { get, isAborted, ProblemError } from '../../api/client';
import { liveQueries, type LiveStream } from '../../api/live';
import type { LogEntry, LogPage } from '../../api/schema';
import type { Rows } from '../../components/rows';
import { asQuery, type Filter } from './filter';
import { Pages, type Missing, type Row } from './pages';

export type { Row } from './pages';

/** Rows of a page. The first is small, so that it is there at once. */
const FIRST_PAGE = 60;
const PAGE = 300;
/** New rows above the pages, and new rows that wait while somebody reads further down: older ones
 *  are in the log. */
const MOST_NEW = 600;
/** Milliseconds between two updates of the rows by new queries. */
const FLUSH = 200;
/** Pages in a row without a find before the user is asked. */
const MOST_EMPTY = 20;
/** Rows below the visible ones that are read ahead. */
const AHEAD = 200;
const NONE: Rows<Row> = { length: 0, isComplete: false, at: () => undefined, find: () => -1 };

function keyOf(entry: LogEntry): string {
  return `${entry['time-us']} ${entry.client ?? ''} ${entry.type} ${entry.name ?? ''}`;
}

function rowOf(entry: LogEntry): Row {
  return { key: `${entry.id}`, entry };
}

/** Returns the cursor of a page that begins with a row; the API gives cursors of next pages only. */
function cursorAt(row: Row): string {
  return ((row.entry.id ?? 0) + 1).toString(16);
}

export class Feed {
  rows = $state.raw<Rows<Row>>(NONE);
  /** The number of new rows that are not shown yet. */
  waiting = $state(0);
  isLoading = $state(false);
  skipped = $state(0);
  isOpen = $state(false);
  isLogOff = $state(false);
  failure = $state.raw<unknown>(null);
  damaged = $state.raw<string[]>([]);
  /** The number of rows in memory. */
  kept = $state(0);
  /** Whether new rows are shown at once. */
  isFollowing = true;

  #filter: Filter = {};
  #pages = new Pages();
  /** Where the page after the last one begins; nothing for the newest queries. */
  #next: string | null = null;
  #isComplete = false;
  /** Whether rows between the new ones and the pages were given up. */
  #isCut = false;
  #new: Row[] = [];
  #waiting: Row[] = [];
  #arrived: Row[] = [];
  /** The keys of all new rows, and of the newest page: a query may come by both ways. */
  #newKeys = new Set<string>();
  #newestKeys = new Set<string>();
  #view = { first: 0, end: 0 };
  #stream: LiveStream | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #abort = new AbortController();

  /** Begins with a filter until the returned function is called. */
  start(filter: Filter, isLive: boolean): () => void {
    this.#filter = filter;
    this.#abort = new AbortController();
    this.#view = { first: 0, end: 0 };
    this.#new = [];
    this.#waiting = [];
    this.#arrived = [];
    this.#newKeys = new Set();
    this.#isCut = false;
    this.#forgetPages();
    this.waiting = 0;
    this.isLogOff = false;
    this.skipped = 0;
    this.failure = null;
    this.isFollowing = true;
    if (isLive) this.#follow();
    // The rows of the filter before stay until those of this one are there.
    void this.#begin(FIRST_PAGE);
    return () => {
      this.#abort.abort();
      this.#stream?.close();
      this.#stream = undefined;
      this.isOpen = false;
      clearInterval(this.#timer);
    };
  }

  /** Notes which rows are visible: those near them are loaded, and those far away given up. */
  view(first: number, end: number): void {
    this.#view = { first, end };
    this.#keep();
    void this.#fill();
  }

  /** Searches further after a failure, or if pages had no find. */
  retry(): void {
    this.failure = null;
    this.isLogOff = false;
    void this.#begin(this.rows.length === 0 ? FIRST_PAGE : PAGE);
  }

  /** Shows the rows that wait. */
  show(): void {
    if (this.waiting === 0) return;
    if (this.waiting > this.#waiting.length) this.#cut([]);
    const added = this.#waiting;
    this.#waiting = [];
    this.waiting = 0;
    this.#add(added);
  }

  #forgetPages(): void {
    this.#pages = new Pages();
    this.#next = null;
    this.#isComplete = false;
    this.#newestKeys = new Set();
  }

  /** Keeps only some of the new rows; the pages are read again below them. */
  #cut(kept: Row[]): void {
    for (const { entry } of this.#new.slice(kept.length)) this.#newKeys.delete(keyOf(entry));
    this.#new = kept;
    this.#isCut = true;
    this.#forgetPages();
  }

  /** Loads what is missing in the view, one page at a time. */
  async #fill(): Promise<void> {
    while (!this.isLoading && !this.failure && this.rows.length > 0) {
      const [first, end] = [this.#view.first - this.#new.length, this.#view.end - this.#new.length];
      const missing = this.#pages.missing(Math.max(0, first - AHEAD), end + AHEAD);
      if (missing) {
        await this.#reload(missing);
        continue;
      }
      const isEnough = this.#isComplete || end + AHEAD < this.#pages.length;
      if (isEnough || !(await this.#load(PAGE))) return;
    }
  }

  /** Reads a page again. */
  async #reload({ cursor, count, end }: Missing): Promise<void> {
    const until = Number.parseInt(end ?? this.#next ?? '0', 16);
    await this.#reading(async (signal) => {
      const rows: Row[] = [];
      let next: string | null | undefined = cursor;
      for (let left = MOST_EMPTY; left > 0 && next && rows.length < count; left -= 1) {
        if (Number.parseInt(next, 16) <= until) break;
        const page: LogPage = await this.#page(count - rows.length, next, signal);
        const own = page.queries.filter((entry) => (entry.id ?? 0) >= until);
        rows.push(...own.filter((entry) => !this.#newKeys.has(keyOf(entry))).map(rowOf));
        next = own.length < page.queries.length ? null : page.next;
      }
      this.#pages.fill(cursor, rows);
      this.#update();
    });
  }

  /** Reads the page after the last one, and returns whether it has rows. */
  async #load(limit: number): Promise<boolean> {
    const before = this.#pages.length;
    await this.#reading(async (signal) => {
      for (let left = MOST_EMPTY; left > 0 && !this.#isComplete; left -= 1) {
        const page = await this.#page(limit, this.#next, signal);
        const rows = this.#pages.length === 0 ? this.#unseen(page.queries) : page.queries.map(rowOf);
        if (rows[0]) this.#pages.push(cursorAt(rows[0]), rows);
        this.damaged = page.damaged.map((file) => file.file);
        this.#next = page.next ?? null;
        this.#isComplete = !page.next;
        if (rows.length > 0) break;
      }
      this.#update();
    });
    return this.#pages.length > before;
  }

  async #begin(limit: number): Promise<void> {
    if (await this.#load(limit)) await this.#fill();
  }

  async #reading(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    this.isLoading = true;
    try {
      await work(signal);
      this.failure = null;
    } catch (error) {
      if (isAborted(error)) return;
      this.isLogOff = error instanceof ProblemError && error.problem.status === 409;
      if (!this.isLogOff) this.failure = error;
      if (this.#pages.length === 0) this.#update();
    } finally {
      if (!signal.aborted) this.isLoading = false;
    }
  }

  #page(limit: number, cursor: string | null, signal: AbortSignal): Promise<LogPage> {
    return get('/queries', { ...asQuery(this.#filter), limit, cursor }, { signal });
  }

  /** Returns the rows of the newest page that are not new rows, too. */
  #unseen(entries: LogEntry[]): Row[] {
    const oldest = this.#isCut ? this.#new.at(-1)?.entry['time-us'] : undefined;
    const unseen = entries.filter(
      (entry) => !this.#newKeys.has(keyOf(entry)) && entry['time-us'] <= (oldest ?? Infinity),
    );
    for (const entry of unseen) this.#newestKeys.add(keyOf(entry));
    return unseen.map(rowOf);
  }

  #follow(): void {
    const { from: _from, to: _to, ...query } = asQuery(this.#filter);
    this.#stream = liveQueries(query, {
      part: (line) => {
        if ('query' in line) this.#arrive(line.query);
        else if ('skipped' in line) this.skipped += line.skipped;
      },
      state: (isOpen) => (this.isOpen = isOpen),
    });
    this.#timer = setInterval(() => this.#flush(), FLUSH);
  }

  #arrive(entry: LogEntry): void {
    const key = keyOf(entry);
    if (this.#newKeys.has(key) || this.#newestKeys.has(key)) return;
    this.#newKeys.add(key);
    this.#arrived.push({ key, entry });
  }

  #flush(): void {
    if (this.#arrived.length === 0 || document.hidden) return;
    const added = this.#arrived.reverse();
    this.#arrived = [];
    if (this.isFollowing) {
      this.#add(added);
      return;
    }
    this.waiting += added.length;
    const waiting = [...added, ...this.#waiting];
    for (const { entry } of waiting.splice(MOST_NEW)) this.#newKeys.delete(keyOf(entry));
    this.#waiting = waiting;
  }

  #add(rows: Row[]): void {
    this.#new = [...rows, ...this.#new];
    if (this.#new.length > MOST_NEW) this.#cut(this.#new.slice(0, MOST_NEW));
    this.#update();
  }

  #keep(): void {
    const before = this.#new.length;
    const kept = this.#pages.keep(this.#view.first - before, this.#view.end - before);
    this.kept = kept + before + this.#waiting.length;
  }

  /** Shows the rows as they are now. */
  #update(): void {
    const [added, pages] = [this.#new, this.#pages];
    const before = added.length;
    this.rows = {
      length: before + pages.length,
      isComplete: this.#isComplete,
      at: (index) => (index < before ? added[index] : pages.at(index - before)),
      find: (key) => {
        const at = added.findIndex((row) => row.key === key);
        if (at >= 0) return at;
        const below = pages.find(key);
        return below < 0 ? -1 : before + below;
      },
    };
    this.#keep();
  }
}
