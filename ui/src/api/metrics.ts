// The metrics of the server, in the text format of Prometheus.

import { ProblemError, problemOf } from './client';

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** All series of a moment. */
export class Metrics {
  readonly at = Date.now() / 1000;
  #series = new Map<string, Sample[]>();

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const parts = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
      if (!parts) continue;
      const [, name = '', labels = '', value = ''] = parts;
      const all = this.#series.get(name) ?? [];
      all.push({ labels: labelsOf(labels), value: Number(value) });
      this.#series.set(name, all);
    }
  }

  /** The samples with these labels. */
  all(name: string, labels: Record<string, string> = {}): Sample[] {
    const wanted = Object.entries(labels);
    return (this.#series.get(name) ?? []).filter((one) =>
      wanted.every(([key, value]) => one.labels[key] === value),
    );
  }

  /** The sum of the samples with these labels. */
  sum(name: string, labels: Record<string, string> = {}): number {
    return this.all(name, labels).reduce((total, one) => total + one.value, 0);
  }

  has(name: string): boolean {
    return this.#series.has(name);
  }
}

function labelsOf(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [, key = '', value = ''] of text.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
    found[key] = value.replace(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one));
  }
  return found;
}

/** Reads the metrics, which need no log-in. */
export async function readMetrics(): Promise<Metrics> {
  try {
    const reply = await fetch('/metrics');
    if (!reply.ok) throw new Error(`/metrics: ${reply.status} ${reply.statusText}`);
    return new Metrics(await reply.text());
  } catch (error) {
    throw new ProblemError(problemOf(error));
  }
}

/** Reads them at once and then every few seconds, while the page is visible. Returns how to stop. */
export function watchMetrics(
  millis: number,
  then: (metrics: Metrics) => void,
  fail: (error: unknown) => void,
): () => void {
  const read = (): void => {
    if (!document.hidden) readMetrics().then(then, fail);
  };
  read();
  const timer = setInterval(read, millis);
  return () => clearInterval(timer);
}
