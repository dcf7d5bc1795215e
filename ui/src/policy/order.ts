// The order of rules: by priority, then by their place in the file.

import { unnamed, type Edit, type RuleEntry } from './configuration.svelte';

/** A rule with its place in the file. */
export interface PlacedRule {
  rule: RuleEntry;
  place: number;
}

const STEP = 10;
const HIGHEST = 1_000_000;

/** Returns the rules in the order in which they apply. */
export function ordered(rules: readonly RuleEntry[]): PlacedRule[] {
  return rules
    .map((rule, place) => ({ rule, place }))
    .sort((a, b) => a.rule.priority - b.rule.priority || a.place - b.place);
}

/** Returns the edits that move a rule: of its own priority if that is enough, else of all. */
export function moved(all: readonly PlacedRule[], from: number, to: number): Edit[] {
  const next = [...all];
  const [one] = next.splice(from, 1);
  if (!one) return [];
  next.splice(to, 0, one);
  const [before, after] = [next[to - 1], next[to + 1]];
  const fits = (priority: number): boolean =>
    (!before || before.rule.priority < priority ||
      (before.rule.priority === priority && before.place < one.place)) &&
    (!after || after.rule.priority > priority ||
      (after.rule.priority === priority && after.place > one.place));
  const low = before?.rule.priority ?? 0;
  const high = after?.rule.priority ?? low + STEP;
  const found = [low, high, Math.floor((low + high) / 2), low + 1].find(
    (priority) => priority >= 0 && priority <= HIGHEST && fits(priority),
  );
  if (found !== undefined) return [[`rule[${one.rule.name}].priority`, found]];
  return next.map(({ rule }, at) => [`rule[${rule.name}].priority`, (at + 1) * STEP]);
}

/** Returns the settings of a rule without those that are the default. */
export function settingsOf(rule: RuleEntry): ReturnType<typeof unnamed> {
  const { enabled, 'log-only': logOnly, priority, ...rest } = unnamed(rule);
  return {
    ...rest,
    ...(enabled === false ? { enabled } : {}),
    ...(logOnly ? { 'log-only': true } : {}),
    ...(priority ? { priority } : {}),
  };
}
