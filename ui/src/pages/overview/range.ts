// The time that the overview is about. It is in the address, so that it can be linked.

export const RANGES = ['live', 'hour', 'day', 'week'] as const;
export type RangeName = (typeof RANGES)[number];

export interface Range {
  /** Null for a time that the user chose in the chart. */
  name: RangeName | null;
  from: number;
  to: number;
  /** Seconds of a step of the series. */
  step: number;
}

const LENGTHS: Record<RangeName, { secs: number; step: number }> = {
  live: { secs: 3600, step: 60 },
  hour: { secs: 3600, step: 60 },
  day: { secs: 86_400, step: 900 },
  week: { secs: 7 * 86_400, step: 7200 },
};
/** Steps that people know, in seconds. */
const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
/** Bars of a chart for a chosen time, at most. */
const MOST_BARS = 96;
const SHORTEST = 120;

/** Reads the range of an address. */
export function rangeOf(query: URLSearchParams, now: number): Range {
  const [from, to] = [Number(query.get('from')), Number(query.get('to'))];
  if (from > 0 && to >= from + SHORTEST) {
    const step = STEPS.find((one) => (to - from) / one <= MOST_BARS) ?? 86_400;
    return { name: null, from: Math.floor(from / 60) * 60, to: Math.ceil(to / 60) * 60, step };
  }
  const named = RANGES.find((name) => name === query.get('range')) ?? 'hour';
  const { secs, step } = LENGTHS[named];
  const until = Math.floor(now);
  return { name: named, from: until - secs, to: until, step };
}

/** Milliseconds between two refreshes; none for a time in the past. */
export function interval(range: Range): number | null {
  if (range.name === null) return null;
  return range.step <= 60 ? 10_000 : 60_000;
}
