// Numbers and times as texts. Every number that has a unit is shown with it.

import { language, locale } from './texts';

/** Makes a value when it is first needed: a formatter takes as long as some components. */
function lazy<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** One formatter serves all numbers, which are rounded before. */
const DIGITS = 3;
const decimal = lazy(() => new Intl.NumberFormat(locale, { maximumFractionDigits: DIGITS }));

/** Returns a number with at most some digits after the point, with separators. */
function rounded(value: number, digits: number): string {
  const exact = Number(value.toFixed(digits));
  // Small whole numbers are the same in all languages, but for a zero below zero.
  if (Number.isInteger(exact) && Math.abs(exact) < 1000) return String(exact + 0);
  return decimal().format(exact);
}

/** Returns a number from 1 to 999 with three digits at most. */
function threeDigits(value: number): string {
  return rounded(Number(value.toPrecision(DIGITS)), DIGITS);
}

/** Between a number and its unit: a narrow space that does not break. */
const GAP = '\u202f';

/** A whole number, with separators. */
export function whole(value: number): string {
  return rounded(value, 0);
}

/** A number with three digits at most, such as 1.24 M. */
export function short(value: number): string {
  const steps: [number, string][] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']];
  for (const [size, unit] of steps) {
    if (Math.abs(value) >= size) {
      const scale = unit === 'k' ? 1e3 : size;
      return `${threeDigits(value / scale)}${GAP}${unit}`;
    }
  }
  return rounded(value, Math.abs(value) < 10 ? 1 : 0);
}

/** A share between 0 and 1. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return '–';
  const digits = share > 0 && share < 0.0995 ? 1 : 0;
  return `${rounded(share * 100, digits)}${language === 'de' ? '\u00a0' : ''}%`;
}

/** Octets, in powers of 1024. */
export function octets(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  const digits = at > 0 && value < 10 ? 1 : 0;
  return `${rounded(value, digits)}${GAP}${units[at]}`;
}

/** A time to answer, from microseconds. */
export function delay(micros: number): string {
  if (micros < 1000) return `${whole(micros)}${GAP}µs`;
  if (micros < 1e6) {
    const digits = micros < 1e4 ? 1 : 0;
    return `${rounded(micros / 1000, digits)}${GAP}ms`;
  }
  return `${rounded(micros / 1e6, micros < 1e7 ? 1 : 0)}${GAP}s`;
}

/** The CPU time of an answer, from microseconds, with three digits. */
export function cost(micros: number): string {
  return `${threeDigits(micros)}${GAP}µs`;
}

/** A duration in its two largest units, from seconds. */
export function duration(secs: number): string {
  const units: [number, string][] = [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  let left = Math.max(0, Math.round(secs));
  const parts: string[] = [];
  for (const [size, unit] of units) {
    const count = Math.floor(left / size);
    if (count > 0 || (unit === 's' && parts.length === 0)) parts.push(`${count}${GAP}${unit}`);
    else if (parts.length > 0) break;
    left -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

const relative = lazy(() => new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' }));

/** How long ago a Unix second was, in words. */
export function ago(at: number, now: number = Date.now() / 1000): string {
  const secs = at - now;
  const size = Math.abs(secs);
  if (size < 60) return relative().format(Math.round(secs), 'second');
  if (size < 3600) return relative().format(Math.round(secs / 60), 'minute');
  if (size < 86_400) return relative().format(Math.round(secs / 3600), 'hour');
  return relative().format(Math.round(secs / 86_400), 'day');
}

const times = (options: Intl.DateTimeFormatOptions): (() => Intl.DateTimeFormat) =>
  lazy(() => new Intl.DateTimeFormat(locale, options));

const clock = times({ timeStyle: 'medium' });
const clockMinutes = times({ timeStyle: 'short' });
const date = times({ dateStyle: 'medium' });
const dateShort = times({ day: 'numeric', month: 'short' });
const both = times({ dateStyle: 'medium', timeStyle: 'medium' });

/** A Unix second in the zone of the browser: the time if it is today, else with its day. */
export function time(at: number): string {
  const moment = new Date(at * 1000);
  const isToday = moment.toDateString() === new Date().toDateString();
  if (isToday) return clock().format(moment);
  return `${dateShort().format(moment)} ${clock().format(moment)}`;
}

/** The day and time of a Unix second in the zone of the browser. */
export function dateTime(at: number): string {
  return both().format(new Date(at * 1000));
}

/** The day of a Unix second in the zone of the browser. */
export function day(at: number): string {
  return date().format(new Date(at * 1000));
}

/** Hours and minutes of a Unix second in the zone of the browser. */
export function minutes(at: number): string {
  return clockMinutes().format(new Date(at * 1000));
}

/** The times of an axis: the day where it begins, hours and minutes otherwise. */
export function axisTimes(ticks: readonly number[]): string[] {
  let last = '';
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    const moment = new Date(tick * 1000);
    const date = dateShort().format(moment);
    if (step >= 86_400) return date;
    if (step > 0 && step < 60) return clock().format(moment);
    const isOther = last !== '' && date !== last;
    last = date;
    return isOther ? date : clockMinutes().format(moment);
  });
}

/** A Unix second in UTC, for the text on hover. */
export function utc(at: number): string {
  return `${new Date(at * 1000).toISOString().replace('T', ' ').replace(/\.\d+Z$/, '')} UTC`;
}

const names = lazy(() => new Intl.Collator(locale, { numeric: true }));

/** The order of names for people. */
export function byName(one: { name: string }, other: { name: string }): number {
  return names().compare(one.name, other.name);
}

/** A domain name as people write it: without the last dot. */
export function bare(name: string): string {
  return name.length > 1 && name.endsWith('.') && !name.endsWith('\\.') ? name.slice(0, -1) : name;
}
