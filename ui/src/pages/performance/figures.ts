// The figures of runs, and how one run differs from the first.

import { cost, delay, percent, short, whole } from '../../format';
import { text } from '../../texts';
import type { Run } from './runs.svelte';

const t = text.performance.runs;

export interface Figure {
  name: string;
  value: (run: Run) => number | null;
  show: (value: number) => string;
  /** Whether a change is better; null if it says nothing, or too little. */
  judge: (change: Change) => boolean | null;
}

export interface Change {
  from: number;
  to: number;
  /** `to` to `from`; null if `from` is 0. */
  ratio: number | null;
  runs: readonly [Run, Run];
}

/** What single runs must differ by, as `avocet load compare` has it. */
const LATENCY_RATIO = 0.15;
const LATENCY_NS = 20_000;
const RATE_RATIO = 0.1;
const LOSS = 0.001;
/** A smaller ratio would be shown as zero per cent. */
const UNSEEN = 0.0005;

const nothing = (): null => null;

function isBeyond(change: Change, ratio: number): boolean {
  return change.ratio === null ? change.to !== 0 : Math.abs(change.ratio - 1) > ratio;
}

function byLatency(change: Change): boolean | null {
  const isOpen = change.runs.every((run) => run.isOpenLoop);
  const isLarge = Math.abs(change.to - change.from) > LATENCY_NS && isBeyond(change, LATENCY_RATIO);
  return isOpen && isLarge ? change.to < change.from : null;
}

/** Of open loops, the rate is what was asked for. */
function byRate(change: Change): boolean | null {
  const isClosed = change.runs.every((run) => !run.isOpenLoop);
  return isClosed && isBeyond(change, RATE_RATIO) ? change.to > change.from : null;
}

function byCapacity(change: Change): boolean | null {
  return isBeyond(change, RATE_RATIO) ? change.to > change.from : null;
}

function byCost(change: Change): boolean | null {
  return isBeyond(change, RATE_RATIO) ? change.to < change.from : null;
}

function byLoss({ runs: [first, run] }: Change): boolean | null {
  return Math.abs(run.loss - first.loss) >= LOSS ? run.loss < first.loss : null;
}

function byCount(change: Change): boolean | null {
  return change.to === change.from ? null : change.to < change.from;
}

const nanos = (value: number): string => delay(value / 1000);

function latency(name: string, value: (run: Run) => number): Figure {
  return { name, value, show: nanos, judge: byLatency };
}

/** The figures in the order of the table. One that no run has is left out. */
export const FIGURES: readonly Figure[] = [
  { name: t.highestRate, value: (run) => run.highestRate, show: (value) => `${whole(value)}/s`, judge: byCapacity },
  { name: t.answeredPerSec, value: (run) => run.answeredPerSec, show: (value) => `${whole(value)}/s`, judge: byRate },
  { name: t.sent, value: (run) => run.sent, show: short, judge: nothing },
  { name: t.answered, value: (run) => run.answered, show: short, judge: nothing },
  { name: t.lost, value: (run) => run.lost, show: short, judge: byLoss },
  { name: t.wrong, value: (run) => run.wrong, show: short, judge: byCount },
  { name: t.cpu, value: (run) => run.cpu, show: cost, judge: byCost },
  latency('P50', (run) => run.latency.p50),
  latency('P90', (run) => run.latency.p90),
  latency('P99', (run) => run.latency.p99),
  latency('P99.9', (run) => run.latency.p999),
  { ...latency(t.mean, (run) => run.latency.mean), judge: nothing },
  { ...latency(t.max, (run) => run.latency.max), judge: nothing },
];

export interface Difference {
  shown: string;
  isBetter: boolean | null;
}

/** Returns how a run differs from the first in a figure; null if one of them does not have it. */
export function difference(figure: Figure, first: Run, run: Run): Difference | null {
  const [from, to] = [figure.value(first), figure.value(run)];
  if (from === null || to === null) return null;
  const ratio = from > 0 ? to / from : null;
  const isBetter = figure.judge({ from, to, ratio, runs: [first, run] });
  if (to === from) return { shown: '=', isBetter };
  if (ratio === null) return { shown: `+${figure.show(to)}`, isBetter };
  if (Math.abs(ratio - 1) < UNSEEN) return { shown: '≈', isBetter };
  if (ratio >= 10) return { shown: `× ${short(ratio)}`, isBetter };
  const sign = to > from ? '+' : '−';
  return { shown: `${sign}${percent(Math.abs(ratio - 1))}`, isBetter };
}

type Aspect = keyof typeof t.differs;

const ASPECTS: Record<Aspect, (run: Run) => unknown> = {
  scenario: (run) => run.scenario,
  pace: (run) => (run.isOpenLoop ? run.rate : 'closed'),
  clients: (run) => run.clients,
  transport: (run) => run.transport,
  machine: (run) => run.machine,
};

/** Returns what else is different between runs, so that their figures say less. */
export function differing(runs: readonly Run[]): Aspect[] {
  const all = Object.keys(ASPECTS) as Aspect[];
  return all.filter((one) => new Set(runs.map(ASPECTS[one])).size > 1);
}
