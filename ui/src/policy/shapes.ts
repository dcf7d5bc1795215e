// Rules of simple shapes, which pages show as switches and as a week: blocked services, safe
// search, and schedules. Rules of other shapes are only in the list of rules.

import { parsed, printed, type ConditionNode, type Test } from './condition';
import type { RuleEntry } from './configuration.svelte';

/** The services that the server knows, with the names that people know. */
export const SERVICES: Record<string, string> = {
  amazon: 'Amazon',
  bluesky: 'Bluesky',
  chatgpt: 'ChatGPT',
  discord: 'Discord',
  'disney-plus': 'Disney+',
  'epic-games': 'Epic Games',
  facebook: 'Facebook',
  instagram: 'Instagram',
  linkedin: 'LinkedIn',
  minecraft: 'Minecraft',
  netflix: 'Netflix',
  pinterest: 'Pinterest',
  reddit: 'Reddit',
  roblox: 'Roblox',
  signal: 'Signal',
  snapchat: 'Snapchat',
  spotify: 'Spotify',
  steam: 'Steam',
  telegram: 'Telegram',
  tiktok: 'TikTok',
  tinder: 'Tinder',
  twitch: 'Twitch',
  vimeo: 'Vimeo',
  wechat: 'WeChat',
  whatsapp: 'WhatsApp',
  x: 'X (Twitter)',
  youtube: 'YouTube',
  zoom: 'Zoom',
};

export const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
export type Day = (typeof DAYS)[number];
export const HOURS = 24;

/** For everybody, in the place of a group. */
export const EVERYBODY = '';

const test = (subject: Test['subject'], verb: Test['verb'], values: string[]): Test => ({
  kind: 'test', not: false, subject, verb, values,
});
const isPlain = (node: ConditionNode, subject: Test['subject']): node is Test =>
  node.kind === 'test' && node.subject === subject && !node.not;

/** Returns whether a rule applies now without settings that a switch would hide. */
function isOrdinary(rule: RuleEntry): boolean {
  return rule.enabled && !rule['log-only'] && rule.answer === undefined && !rule['time-zone'];
}

/** Splits a condition into its group and the rest; null if it has another shape. */
function byGroup(when: string): { group: string; rest: ConditionNode[] } | null {
  const tree = parsed(when);
  if (!tree) return null;
  const items = tree.kind === 'all' || tree.items.length === 1 ? tree.items : [tree];
  const groups = items.filter((one) => isPlain(one, 'client.group'));
  const rest = items.filter((one) => !isPlain(one, 'client.group'));
  const [first] = groups;
  if (!first) return { group: EVERYBODY, rest };
  if (groups.length > 1 || first.kind !== 'test' || first.values.length !== 1) return null;
  return { group: first.values[0] ?? EVERYBODY, rest };
}

/** Returns the condition on a group with others. */
function forGroup(group: string, rest: ConditionNode[]): string {
  const items = group === EVERYBODY ? rest : [test('client.group', 'any', [group]), ...rest];
  return printed({ kind: 'all', not: false, items });
}

/** Returns the services that a rule blocks for a group at all times; null for other rules. */
export function blockedServices(rule: RuleEntry): { group: string; services: string[] } | null {
  if (rule.action !== 'block' || !isOrdinary(rule)) return null;
  const found = byGroup(rule.when);
  const [only] = found?.rest ?? [];
  if (!found || found.rest.length !== 1 || !only || !isPlain(only, 'service')) return null;
  return { group: found.group, services: only.values };
}

/** Returns the condition of a rule on services. */
export function servicesCondition(group: string, services: string[]): string {
  return forGroup(group, [test('service', 'any', services)]);
}

/** Returns the group that has safe search by a rule; null for other rules. */
export function safeSearchGroup(rule: RuleEntry): string | null {
  if (rule.action !== 'safe-search' || !isOrdinary(rule)) return null;
  const found = byGroup(rule.when);
  return found && found.rest.length === 0 ? found.group : null;
}

/** Returns the condition of a rule on safe search. */
export function safeSearchCondition(group: string): string {
  return forGroup(group, []);
}

export type Week = boolean[][];

export const emptyWeek = (): Week => DAYS.map(() => new Array<boolean>(HOURS).fill(false));

/** A rule that blocks at some hours of the week. */
export interface Schedule {
  group: string;
  /** Everything, services or names. */
  what: 'all' | 'service' | 'qname';
  values: string[];
  week: Week;
}

/** Returns a rule as a schedule; null for rules of other shapes. */
export function scheduleOf(rule: RuleEntry): Schedule | null {
  if (rule.action !== 'block' || rule['log-only']) return null;
  const found = byGroup(rule.when);
  if (!found) return null;
  const week = emptyWeek();
  const targets: Test[] = [];
  const times: ConditionNode[] = [];
  for (const node of found.rest) {
    const isTarget = node.kind === 'test' && !node.not &&
      (node.subject === 'service' || (node.subject === 'qname' && node.verb === 'under'));
    if (isTarget) targets.push(node);
    else times.push(node);
  }
  if (targets.length > 1 || times.length === 0 || !marksAll(week, times)) return null;
  const [target] = targets;
  const what = target ? (target.subject as 'service' | 'qname') : 'all';
  return { group: found.group, what, values: target?.values ?? [], week };
}

/** Marks the hours of some conditions that hold together; false if they are not whole hours. */
function marksAll(week: Week, nodes: ConditionNode[]): boolean {
  const [only] = nodes;
  if (nodes.length === 1 && only?.kind === 'any' && !only.not) {
    return only.items.every((item) => marksAll(week, [item]));
  }
  if (nodes.length === 1 && only?.kind === 'all' && !only.not) return marksAll(week, only.items);
  let days: readonly string[] = DAYS;
  let [from, to] = [0, HOURS];
  for (const node of nodes) {
    if (node.kind !== 'test' || node.not) return false;
    if (node.subject === 'now.weekday') days = node.values;
    else if (node.subject === 'now.weekend') days = ['sat', 'sun'];
    else if (node.subject === 'now.between') {
      const [begin, end] = node.values.map(hourOf);
      if (begin === undefined || end === undefined || begin < 0 || end < 0) return false;
      [from, to] = [begin, end === 0 ? HOURS : end];
    } else return false;
  }
  if (nodes.length > 2) return false;
  days.forEach((day) => {
    const row = week[DAYS.indexOf(day as Day)];
    for (let hour = 0; row && hour < HOURS; hour += 1) {
      const isIn = from < to ? hour >= from && hour < to : hour >= from || hour < to;
      if (isIn) row[hour] = true;
    }
  });
  return true;
}

function hourOf(text: string): number {
  const match = /^(\d\d):00$/.exec(text);
  return match ? Number(match[1]) : -1;
}

const clockText = (hour: number): string => `${String(hour % HOURS).padStart(2, '0')}:00`;

/** Returns the stretches of marked hours of a day, as [from, to]. */
export function stretches(row: readonly boolean[]): [number, number][] {
  const found: [number, number][] = [];
  for (let hour = 0; hour < HOURS; hour += 1) {
    const last = found.at(-1);
    if (!row[hour]) continue;
    if (last && last[1] === hour) last[1] = hour + 1;
    else found.push([hour, hour + 1]);
  }
  return found;
}

/** Returns the condition on the hours of a week: days with equal hours share a part. */
function weekConditions(week: Week): ConditionNode[] {
  const byStretch = new Map<string, { stretch: [number, number]; days: Day[] }>();
  week.forEach((row, at) => {
    for (const stretch of stretches(row)) {
      const key = stretch.join('-');
      const entry = byStretch.get(key) ?? { stretch, days: [] };
      entry.days.push(DAYS[at] as Day);
      byStretch.set(key, entry);
    }
  });
  const parts = [...byStretch.values()].map(({ stretch: [from, to], days }): ConditionNode => {
    const items: ConditionNode[] = [];
    if (days.length < DAYS.length) items.push(test('now.weekday', 'is', days));
    if (to - from < HOURS) items.push(test('now.between', 'between', [clockText(from), clockText(to)]));
    return { kind: 'all', not: false, items };
  });
  const [only] = parts;
  if (parts.length === 1 && only?.kind === 'all') return only.items;
  return [{ kind: 'any', not: false, items: parts }];
}

/** Returns the condition of a schedule. */
export function scheduleCondition({ group, what, values, week }: Schedule): string {
  const target = what === 'service' ? [test('service', 'any', values)]
    : what === 'qname' ? [test('qname', 'under', values)]
      : [];
  return forGroup(group, [...target, ...weekConditions(week)]);
}

/** Returns a name that no entry has yet. */
export function freeName(wanted: string, taken: readonly { name: string }[]): string {
  const names = new Set(taken.map((one) => one.name));
  if (!names.has(wanted)) return wanted;
  for (let number = 2; ; number += 1) {
    if (!names.has(`${wanted} ${number}`)) return `${wanted} ${number}`;
  }
}
