// Explanations of answers. The OpenAPI document marks each section by a field that the generated
// types leave out.

import { get, post, type ReadOptions } from './client';
import type {
  CachedFailure,
  CachedName,
  FailedTrace,
  GivenAnswer,
  PastDecision,
  PolicyDecision,
  ResolvedTrace,
  SentQuery,
  TraceStep as AnyStep,
} from './schema';

/** A section of an explanation. */
export type Section =
  | ({ section: 'past' } & PastDecision)
  | ({ section: 'policy' } & PolicyDecision)
  | ({ section: 'failed' } & FailedTrace)
  | ({ section: 'failure-cache' } & CachedFailure)
  | ({ section: 'cache' } & CachedName)
  | ({ section: 'resolved' } & ResolvedTrace)
  | ({ section: 'answer' } & GivenAnswer);

export type { AnyStep, SentQuery };

/** Returns the section of a kind. */
export function part<K extends Section['section']>(
  sections: readonly Section[],
  kind: K,
): Extract<Section, { section: K }> | undefined {
  return sections.find(
    (one): one is Extract<Section, { section: K }> => one.section === kind,
  );
}

export interface Question {
  name: string;
  type?: string;
  client?: string;
  listener?: string;
  /** The Unix second. */
  at?: number;
}

/** Explains the answer that a client gets, or got. */
export async function explain(question: Question, options?: ReadOptions): Promise<Section[]> {
  const { sections } = await get('/explain', question, options);
  return sections as unknown as Section[];
}

/** Resolves a question again, and returns how. */
export async function trace(question: { name: string; type: string }): Promise<Section[]> {
  const request = { ...question, dnssec: false, checking_disabled: false };
  const { sections } = await post('/trace', request);
  return sections as unknown as Section[];
}
