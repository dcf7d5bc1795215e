// Rows of a table that need not all be in memory.

export interface Rows<T> {
  /** The number of rows, with those that are not in memory. */
  readonly length: number;
  /** Whether `length` is that of all rows, or further ones follow. */
  readonly isComplete: boolean;
  /** Returns a row; nothing if it is not in memory. */
  at(index: number): T | undefined;
  /** Returns where the row with a key is; -1 if it is not in memory. */
  find(key: string): number;
}
