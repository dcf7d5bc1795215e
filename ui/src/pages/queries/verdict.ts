// What happened to a query, in one sentence.

import type { LogEntry } from '../../api/schema';
import { delay } from '../../format';
import { text } from '../../texts';

/** Returns who or what decided: a rule, a list, an upstream or a cache. */
export function by(entry: LogEntry): string {
  if (entry.rule) return entry.rule;
  if (entry.kind === 'blocked' && entry.lists[0]) return entry.lists[0];
  if (entry.upstream) return entry.upstream;
  return text.queries.stages[entry.outcome];
}

/** Returns the sentence. */
export function verdict(entry: LogEntry): string {
  const words = text.queries.verdicts;
  const took = entry['duration-us'] == null ? '' : delay(entry['duration-us']);
  switch (entry.kind) {
    case 'blocked':
      if (entry.rule) return words.blockedByRule(entry.rule);
      return entry.lists[0] ? words.blockedByList(entry.lists[0]) : words.blocked;
    case 'rewritten':
      return entry.rule ? words.rewrittenByRule(entry.rule) : words.rewritten;
    case 'answered':
      if (entry.outcome === 'resolved') {
        return entry.upstream ? words.resolvedBy(entry.upstream, took) : words.resolved(took);
      }
      return entry.outcome === 'stale' ? words.stale(took) : words.fromCache(took);
    default:
      return words[entry.kind];
  }
}
