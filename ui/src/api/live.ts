// Streams of events. The server ends each after five minutes, and the browser connects again.

import { address, get, isAborted, type QueryOf } from './client';
import type { LogLine } from './schema';

export interface LiveStream {
  close(): void;
}

export interface LiveEvents {
  /** A part of the stream. */
  part(line: LogLine): void;
  /** Whether the stream is connected. */
  state(isOpen: boolean): void;
}

/** Milliseconds before the next attempt if the server refuses a stream. */
const PAUSE = 3000;

/** Shows each query as it is answered. */
export function liveQueries(query: QueryOf<'get', '/queries/live'>, events: LiveEvents): LiveStream {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;

  function open(): void {
    source = new EventSource(address('/queries/live', query));
    source.onopen = () => events.state(true);
    source.addEventListener('part', (event) => {
      events.part(JSON.parse((event as MessageEvent<string>).data) as LogLine);
    });
    source.onerror = () => {
      events.state(false);
      if (source?.readyState !== EventSource.CLOSED || isClosed) return;
      // It was refused: the session has ended, or there are too many streams.
      get('/session').catch((error: unknown) => isAborted(error));
      timer = setTimeout(open, PAUSE);
    };
  }

  open();
  return {
    close() {
      isClosed = true;
      clearTimeout(timer);
      source?.close();
    },
  };
}
