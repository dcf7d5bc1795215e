// What waits until the browser has painted.

/** Resolves when the browser has painted what is shown now. A page that nobody sees waits. */
export function painted(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}
