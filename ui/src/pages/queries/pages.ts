// The pages of a search. Each has the cursor at which it begins, so that pages far from the view
// give up their rows and are read again when the view comes back.

import type { LogEntry } from '../../api/schema';

export interface Row {
  key: string;
  entry: LogEntry;
}

interface Page {
  cursor: string;
  /** The index of its first row. */
  start: number;
  count: number;
  /** Nothing while they are not in memory. */
  rows: readonly Row[] | null;
}

/** A page whose rows are not in memory. */
export interface Missing {
  cursor: string;
  count: number;
  /** Where the page after it begins; nothing after the last one. */
  end: string | undefined;
}

/** Rows on both sides of the view that stay in memory. */
const KEPT_AROUND = 900;

export class Pages {
  #pages: Page[] = [];

  /** The rows of all pages, with those that are not in memory. */
  get length(): number {
    const last = this.#pages.at(-1);
    return last ? last.start + last.count : 0;
  }

  /** Adds the page that follows the last one. */
  push(cursor: string, rows: readonly Row[]): void {
    this.#pages.push({ cursor, start: this.length, count: rows.length, rows });
  }

  /** Returns a row; nothing if it is not in memory. */
  at(index: number): Row | undefined {
    const page = this.#pages[this.#holder(index)];
    return page?.rows?.[index - page.start];
  }

  /** Returns where the row with a key is; -1 if it is not in memory. */
  find(key: string): number {
    for (const { rows, start } of this.#pages) {
      const at = rows?.findIndex((row) => row.key === key) ?? -1;
      if (at >= 0) return start + at;
    }
    return -1;
  }

  /** Returns the first page in a range of rows that is not in memory. */
  missing(first: number, end: number): Missing | undefined {
    for (let at = this.#holder(first); at < this.#pages.length; at += 1) {
      const page = this.#pages[at];
      if (!page || page.start >= end) return undefined;
      const { cursor, count, rows } = page;
      if (!rows) return { cursor, count, end: this.#pages[at + 1]?.cursor };
    }
    return undefined;
  }

  /** Puts the rows of a page into memory again. Queries that were deleted since are gone. */
  fill(cursor: string, rows: readonly Row[]): void {
    const at = this.#pages.findIndex((page) => page.cursor === cursor);
    const page = this.#pages[at];
    if (!page) return;
    page.rows = rows;
    const gone = page.count - rows.length;
    page.count = rows.length;
    if (gone !== 0) for (const later of this.#pages.slice(at + 1)) later.start -= gone;
  }

  /** Gives up the rows that are far from a range, and returns the number of those that stay. */
  keep(first: number, end: number): number {
    let kept = 0;
    for (const page of this.#pages) {
      const isFar = page.start + page.count < first - KEPT_AROUND || page.start > end + KEPT_AROUND;
      if (isFar && page.count > 0) page.rows = null;
      kept += page.rows?.length ?? 0;
    }
    return kept;
  }

  /** Returns the number of the page with a row. */
  #holder(index: number): number {
    let [from, end] = [0, this.#pages.length];
    while (end - from > 1) {
      const middle = (from + end) >> 1;
      if ((this.#pages[middle]?.start ?? 0) <= index) from = middle;
      else end = middle;
    }
    return from;
  }
}
