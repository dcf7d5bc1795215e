// Requests to the server. Paths, fields and replies have the types of the OpenAPI document, from
// which `npm run types` makes schema.ts.

import { text } from '../texts';
import type { paths, Problem } from './schema';

const PREFIX = '/api/v1';

type Method = 'get' | 'post' | 'put' | 'delete';
/** The paths below `/api/v1` that have a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: P extends `/api/v1${infer Rest}`
    ? paths[P] extends Record<M, { responses: unknown }>
      ? Rest
      : never
    : never;
}[keyof paths];

type Operation<M extends Method, P extends string> = `/api/v1${P}` extends keyof paths
  ? paths[`/api/v1${P}`] extends Record<M, infer O>
    ? O
    : never
  : never;
/** The fields of the query of a request. */
export type QueryOf<M extends Method, P extends string> =
  Operation<M, P> extends { parameters: { query?: infer Q } }
    ? [NonNullable<Q>] extends [never]
      ? Record<string, never>
      : NonNullable<Q>
    : Record<string, never>;
/** The body of a request. */
export type BodyOf<M extends Method, P extends string> =
  Operation<M, P> extends { requestBody?: { content: { 'application/json': infer B } } } ? B : never;
/** The reply to a request. */
export type ReplyOf<M extends Method, P extends string> =
  Operation<M, P> extends { responses: { 200: { content: { 'application/json': infer R } } } }
    ? R
    : never;

/** A problem that the server reports, or the lack of a reply. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }

  get code(): string {
    return this.problem.code;
  }
}

/** A reply with the entity tag of its resource. */
export interface Tagged<T> {
  data: T;
  tag: string | null;
}

export interface ReadOptions {
  signal?: AbortSignal;
}

export interface WriteOptions extends ReadOptions {
  /** The entity tag of the state that the change is based on. */
  ifMatch?: string | null;
  /** The same key sends the same request again without doing it twice. One is drawn without it. */
  key?: string;
}

let csrf = '';
let onEnd: () => void = () => {};

/** Sets the value that each change repeats. */
export function setCsrf(value: string): void {
  csrf = value;
}

/** Sets what happens when a request finds that the session has ended. */
export function onSessionEnd(then: () => void): void {
  onEnd = then;
}

/** Returns a problem for an error of any kind. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const detail = error instanceof Error ? error.message : String(error);
  return {
    type: 'urn:avocet:problem:unreachable',
    title: text.problem.unreachable,
    status: 0,
    detail,
    code: 'unreachable',
    next: text.problem.unreachableNext,
  };
}

/** Returns whether an error only says that nobody waits for the reply any more. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

function randomKey(): string {
  const octets = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(octets, (octet) => octet.toString(16).padStart(2, '0')).join('');
}

/** Returns the address of a request below `/api/v1`. */
export function address(path: string, query: object = {}): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') fields.set(name, String(value));
  }
  const all = fields.toString();
  return `${PREFIX}${path}${all ? `?${all}` : ''}`;
}

async function problemIn(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as Problem;
    if (body.code) return body;
  } catch {
    // It is not JSON: the reply below describes it.
  }
  return {
    type: 'urn:avocet:problem:unexpected',
    title: text.problem.unexpected,
    status: response.status,
    detail: `${response.status} ${response.statusText}`,
    code: 'unexpected',
    next: text.problem.unexpectedNext,
  };
}

/** Returns the look-up of the session that the document has begun, once. */
function begun(url: string, init: RequestInit): Promise<Response> | undefined {
  const early = globalThis as { avocetSession?: Promise<Response> };
  if (url !== `${PREFIX}/session` || init.method) return undefined;
  const reply = early.avocetSession;
  delete early.avocetSession;
  return reply;
}

async function send(url: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await (begun(url, init) ?? fetch(url, { credentials: 'same-origin', ...init }));
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ProblemError(problemOf(error));
  }
  if (!response.ok) {
    const problem = await problemIn(response);
    if (problem.code === 'unauthenticated' && !url.endsWith(`${PREFIX}/session`)) onEnd();
    throw new ProblemError(problem);
  }
  return response;
}

/** Reads, with the entity tag of the resource. */
export async function getTagged<P extends PathOf<'get'>>(
  path: P,
  query?: QueryOf<'get', P>,
  options: ReadOptions = {},
): Promise<Tagged<ReplyOf<'get', P>>> {
  const response = await send(address(path, query ?? {}), { signal: options.signal ?? null });
  return { data: await response.json(), tag: response.headers.get('etag') };
}

/** Reads. */
export async function get<P extends PathOf<'get'>>(
  path: P,
  query?: QueryOf<'get', P>,
  options: ReadOptions = {},
): Promise<ReplyOf<'get', P>> {
  return (await getTagged(path, query, options)).data;
}

async function write(
  method: Method,
  url: string,
  body: unknown,
  options: WriteOptions,
): Promise<unknown> {
  const headers: Record<string, string> = { 'X-CSRF-Token': csrf };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (options.ifMatch) headers['If-Match'] = options.ifMatch;
  // The session, set-up and uploads know no such keys.
  if (method === 'post' && !/\/(session|setup|restore)\b/.test(url)) {
    headers['Idempotency-Key'] = options.key ?? randomKey();
  }
  const response = await send(url, {
    method: method.toUpperCase(),
    headers,
    body: body === undefined ? null : JSON.stringify(body),
    signal: options.signal ?? null,
  });
  return response.json();
}

/** Adds or does something. */
export async function post<P extends PathOf<'post'>>(
  path: P,
  body: BodyOf<'post', P>,
  options: WriteOptions = {},
): Promise<ReplyOf<'post', P>> {
  return (await write('post', address(path), body, options)) as ReplyOf<'post', P>;
}

/** Replaces something. */
export async function put<P extends PathOf<'put'>>(
  path: P,
  body: BodyOf<'put', P>,
  options: WriteOptions = {},
): Promise<ReplyOf<'put', P>> {
  return (await write('put', address(path), body, options)) as ReplyOf<'put', P>;
}

/** Removes something. */
export async function remove<P extends PathOf<'delete'>>(
  path: P,
  query?: QueryOf<'delete', P>,
  options: WriteOptions = {},
): Promise<ReplyOf<'delete', P>> {
  const url = address(path, query ?? {});
  return (await write('delete', url, undefined, options)) as ReplyOf<'delete', P>;
}

/** Sends a file. */
export async function upload<P extends PathOf<'post'>>(
  path: P,
  file: Blob,
): Promise<ReplyOf<'post', P>> {
  const headers = { 'X-CSRF-Token': csrf, 'Content-Type': 'application/jsonl' };
  const response = await send(address(path), { method: 'POST', headers, body: file });
  return (await response.json()) as ReplyOf<'post', P>;
}
