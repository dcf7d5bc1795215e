// The health of the server with its warnings, read again every half minute.

import { get, isAborted } from '../api/client';

const INTERVAL = 30_000;

class Health {
  warnings = $state<string[]>([]);
  isReached = $state(true);

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
    };
    read();
    const timer = setInterval(read, INTERVAL);
    return () => clearInterval(timer);
  }
}

export const health = new Health();
