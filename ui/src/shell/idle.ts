// Work of the shell that waits until the page has shown its data.

/** Milliseconds after which the work begins, whatever the page does. */
const PATIENCE = 1000;

/** Does work when the browser has nothing else to do; the returned function stops it. */
export function whenIdle(work: () => void): () => void {
  // Safari has no such call.
  if (!('requestIdleCallback' in globalThis)) {
    const timer = setTimeout(work, PATIENCE / 2);
    return () => clearTimeout(timer);
  }
  const request = requestIdleCallback(work, { timeout: PATIENCE });
  return () => cancelIdleCallback(request);
}
