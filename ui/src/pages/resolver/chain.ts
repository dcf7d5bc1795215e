// The chain of trust of a name, from the steps of a trace.

import type { SecurityStatus } from '../../api/schema';

/** The fields of steps that matter here. Each kind of step has some of them. */
interface Step {
  step: string;
  steps?: readonly Step[];
  zone?: string;
  server?: string;
  name?: string;
  type?: string;
  verdict?: SecurityStatus;
  why?: string | null;
  ede?: number | null;
  'key-tags'?: readonly number[];
  'vouched-by'?: readonly number[];
  signer?: string | null;
  'key-tag'?: number | null;
  rcode?: string;
  text?: string;
}

/** A zone on the way from the root to the name. */
export interface Link {
  zone: string;
  /** Whether its keys are vouched for; `null` if the trace did not need to look. */
  verdict: SecurityStatus | null;
  why: string | null;
  ede: number | null;
  keys: readonly number[];
  vouchedBy: readonly number[];
  /** Its verdict was known from an earlier query. */
  isKnown: boolean;
  /** Servers that were asked in vain. */
  silent: readonly string[];
}

/** What was validated at the end of the chain. */
export interface Result {
  name: string;
  type: string;
  verdict: SecurityStatus | null;
  why: string | null;
  signer: string | null;
  keyTag: number | null;
}

export interface Chain {
  links: Link[];
  result: Result;
  /** RCODE of the answer, or `null` if there is none. */
  rcode: string | null;
  /** What the client is told about a failure. */
  failure: string | null;
  /** The place of the first broken link; that of the result is the number of links. */
  broken: number | null;
  queries: number;
  millis: number;
}

interface Trace {
  steps: Steps;
  name: string;
  type: string;
  queries: number;
  'took-ms': number;
}

type Steps = readonly Step[];

function flat(steps: Steps): Step[] {
  return steps.flatMap((step) => [...flat(step.steps ?? []), step]);
}

/** Whether a name is a zone or below it. */
function isIn(name: string, zone: string): boolean {
  const [low, apex] = [name.toLowerCase(), zone.toLowerCase()];
  return apex === '.' || low === apex || low.endsWith(`.${apex}`);
}

function depth(zone: string): number {
  return zone === '.' ? 0 : zone.split('.').length;
}

function linksOf(all: Steps, name: string): Link[] {
  const links = new Map<string, Link>();
  const at = (zone: string): Link => {
    const found = links.get(zone) ?? {
      zone,
      verdict: null,
      why: null,
      ede: null,
      keys: [],
      vouchedBy: [],
      isKnown: false,
      silent: [],
    };
    links.set(zone, found);
    return found;
  };
  let zone = '.';
  for (const step of all) {
    if (step.step === 'cut') {
      zone = step.zone ?? '.';
      at(zone);
    } else if (step.step === 'silent' || step.step === 'unreachable') {
      const link = at(zone);
      link.silent = [...new Set([...link.silent, step.server ?? ''])];
    } else if (step.step === 'keys' || step.step === 'known-keys') {
      const link = at(step.zone ?? '.');
      link.verdict = step.verdict ?? null;
      link.why = step.why ?? null;
      link.ede = step.ede ?? null;
      link.isKnown = step.step === 'known-keys';
      link.keys = step['key-tags'] ?? [];
      link.vouchedBy = step['vouched-by'] ?? [];
    }
  }
  return [...links.values()]
    .filter((link) => isIn(name, link.zone))
    .sort((a, b) => depth(a.zone) - depth(b.zone));
}

function resultOf(all: Steps, name: string, type: string): Result {
  const own = all.filter(
    (step) => step.step === 'validated' && step.type !== 'DS' && step.type !== 'DNSKEY',
  );
  const last = own.at(-1);
  if (!last) {
    return { name, type, verdict: null, why: null, signer: null, keyTag: null };
  }
  return {
    name: last.name ?? name,
    type: last.type ?? type,
    verdict: last.verdict ?? null,
    why: last.why ?? null,
    signer: last.signer ?? null,
    keyTag: last['key-tag'] ?? null,
  };
}

/** Reads the chain of a trace; `null` if it has no steps. */
export function chainOf(sections: readonly object[]): Chain | null {
  const section = sections.find((one) => 'steps' in one) as Trace | undefined;
  if (!section) return null;
  const { steps, name, type } = section;
  const all = flat(steps);
  const end = all.at(-1);
  const links = linksOf(all, name);
  const result = resultOf(all, name, type);
  const at = links.findIndex((link) => link.verdict === 'bogus');
  const isBroken = at < 0 && result.verdict === 'bogus';
  return {
    links,
    result,
    rcode: end?.step === 'answered' ? (end.rcode ?? null) : null,
    failure: end?.step === 'failed' ? (end.text ?? null) : null,
    broken: at >= 0 ? at : isBroken ? links.length : null,
    queries: section.queries,
    millis: section['took-ms'],
  };
}

/** The name for which validation has to be suspended, so that the broken link does not matter. */
export function anchorName(chain: Chain): string {
  const broken = chain.broken ?? 0;
  return chain.links[broken]?.zone ?? chain.links.at(-1)?.zone ?? chain.result.name;
}
