// Conditions of rules as a tree that a form can show, and back to text. Whatever the form has no
// fields for stays as it is written.

export type ConditionNode = Junction | Test | Verbatim;
/** All, or any, of some conditions. */
export interface Junction {
  kind: 'all' | 'any';
  not: boolean;
  items: ConditionNode[];
}
/** A test of one value. */
export interface Test {
  kind: 'test';
  not: boolean;
  subject: Subject;
  verb: Verb;
  values: string[];
}
/** A part that the form shows as text. */
export interface Verbatim {
  kind: 'text';
  text: string;
}

export type Verb =
  | 'under' | 'is' | 'starts_with' | 'ends_with' | 'contains' | 'matches'
  | 'within' | 'any' | 'between' | 'holds';

export const SUBJECTS = {
  qname: ['under', 'is', 'starts_with', 'ends_with', 'contains', 'matches'],
  qtype: ['is'],
  'client.group': ['any'],
  'client.ip': ['within', 'is'],
  'client.name': ['is', 'starts_with', 'ends_with', 'contains', 'matches'],
  'client.mac': ['is'],
  'client.listener': ['is'],
  'client.transport': ['is'],
  list: ['any'],
  service: ['any'],
  'now.between': ['between'],
  'now.weekday': ['is'],
  'now.weekend': ['holds'],
  'answer.ip': ['within', 'is'],
  'answer.cname': ['under', 'is', 'starts_with', 'ends_with', 'contains', 'matches'],
  'geo.country': ['is'],
} as const satisfies Record<string, readonly Verb[]>;
export type Subject = keyof typeof SUBJECTS;

/** Returns the tests that a value has. */
export function verbsOf(subject: Subject): readonly Verb[] {
  return SUBJECTS[subject];
}

/** Verbs that take one text; the others take several. */
const SINGLE: ReadonlySet<Verb> = new Set<Verb>(['starts_with', 'ends_with', 'contains', 'matches']);
export const isSingle = (verb: Verb): boolean => SINGLE.has(verb);

interface Token {
  kind: 'word' | 'text' | 'sign' | 'number';
  value: string;
  from: number;
  to: number;
}

const TOKEN = /\s+|\/\/[^\n]*|(r?"(?:[^"\\\n]|\\.)*"|r?'(?:[^'\\\n]|\\.)*')|([A-Za-z_][\w]*)|(\d+)|(&&|\|\||[=!<>]=|[!()[\].,<>?:])/y;

class Unclear extends Error {}

function tokens(text: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw new Unclear();
    // A comment cannot be kept in a form.
    if (match[0].startsWith('//')) throw new Unclear();
    const to = TOKEN.lastIndex;
    if (match[1] !== undefined) found.push({ kind: 'text', value: plain(match[1]), from, to });
    else if (match[2] !== undefined) found.push({ kind: 'word', value: match[2], from, to });
    else if (match[3] !== undefined) found.push({ kind: 'number', value: match[3], from, to });
    else if (match[4] !== undefined) found.push({ kind: 'sign', value: match[4], from, to });
  }
  return found;
}

function plain(literal: string): string {
  if (literal.startsWith('r')) return literal.slice(2, -1);
  return literal.slice(1, -1).replace(/\\(.)/g, (whole, one: string) => {
    if ('"\'\\'.includes(one)) return one;
    throw new Unclear(whole);
  });
}

class Reader {
  #all: Token[];
  #at = 0;
  constructor(readonly source: string) {
    this.#all = tokens(source);
  }

  whole(): ConditionNode {
    const node = this.#either();
    if (this.#at < this.#all.length) throw new Unclear();
    return node;
  }

  #peek(value: string): boolean {
    const token = this.#all[this.#at];
    return token?.kind === 'sign' && token.value === value;
  }
  #take(value: string): boolean {
    if (!this.#peek(value)) return false;
    this.#at += 1;
    return true;
  }

  #either(): ConditionNode {
    return this.#joined('any', '||', () => this.#joined('all', '&&', () => this.#unary()));
  }

  #joined(kind: 'all' | 'any', sign: string, part: () => ConditionNode): ConditionNode {
    const items = [part()];
    while (this.#take(sign)) items.push(part());
    const [only] = items;
    return items.length === 1 && only ? only : { kind, not: false, items };
  }

  #unary(): ConditionNode {
    const start = this.#at;
    let not = false;
    while (this.#take('!')) not = !not;
    if (this.#take('(')) {
      const inner = this.#either();
      if (!this.#take(')')) throw new Unclear();
      if (!not) return inner;
      if (inner.kind === 'text') return this.#verbatim(start);
      return { ...inner, not: !inner.not };
    }
    const from = this.#at;
    const test = this.#test();
    if (test) return { ...test, not: test.not !== not };
    this.#at = from;
    this.#skip();
    return this.#verbatim(start);
  }

  /** Skips an operand that has no fields in the form. */
  #skip(): void {
    let depth = 0;
    const from = this.#at;
    for (; this.#at < this.#all.length; this.#at += 1) {
      const { kind, value } = this.#all[this.#at] as Token;
      if (kind !== 'sign') continue;
      if (depth === 0 && ['&&', '||', ')', ']'].includes(value)) break;
      if (value === '?' || value === ':') throw new Unclear();
      if (value === '(' || value === '[') depth += 1;
      if (value === ')' || value === ']') depth -= 1;
    }
    if (this.#at === from) throw new Unclear();
  }

  #verbatim(start: number): Verbatim {
    const first = this.#all[start] as Token;
    const last = this.#all[this.#at - 1] as Token;
    return { kind: 'text', text: this.source.slice(first.from, last.to) };
  }

  #word(): string | null {
    const token = this.#all[this.#at];
    if (token?.kind !== 'word') return null;
    this.#at += 1;
    return token.value;
  }

  /** Reads a test, if it is one that the form has. */
  #test(): Test | null {
    const first = this.#word();
    if (!first) return null;
    let path = first;
    while (this.#take('.')) {
      const word = this.#word();
      if (!word) return null;
      path += `.${word}`;
    }
    if (this.#take('(')) return this.#called(path);
    if (path === 'now.weekend') return this.#ends() ? made(path, 'holds', []) : null;
    return this.#compared(path);
  }

  #called(path: string): Test | null {
    const values = this.#texts(')');
    if (!values || !this.#ends()) return null;
    if (path === 'now.between') return values.length === 2 ? made(path, 'between', values) : null;
    if (path === 'list' || path === 'service' || path === 'client.group') {
      return made(path, 'any', values);
    }
    const dot = path.lastIndexOf('.');
    const verb = path.slice(dot + 1);
    return made(path.slice(0, dot), verb === 'in' ? 'within' : (verb as Verb), values);
  }

  #compared(path: string): Test | null {
    if (this.#take('==') || this.#peek('!=')) {
      const not = this.#take('!=');
      const token = this.#all[this.#at];
      if (token?.kind !== 'text') return null;
      this.#at += 1;
      const test = this.#ends() ? made(path, 'is', [token.value]) : null;
      return test && { ...test, not };
    }
    const token = this.#all[this.#at];
    if (token?.kind !== 'word' || token.value !== 'in') return null;
    this.#at += 1;
    if (!this.#take('[')) return null;
    const values = this.#texts(']');
    return values && this.#ends() ? made(path, 'is', values) : null;
  }

  #texts(end: string): string[] | null {
    const values: string[] = [];
    while (!this.#take(end)) {
      const token = this.#all[this.#at];
      if (token?.kind !== 'text') return null;
      values.push(token.value);
      this.#at += 1;
      if (!this.#take(',') && !this.#peek(end)) return null;
    }
    return values;
  }

  /** Returns whether the operand ends here. */
  #ends(): boolean {
    const token = this.#all[this.#at];
    return !token || (token.kind === 'sign' && ['&&', '||', ')'].includes(token.value));
  }
}

function made(subject: string, verb: Verb, values: string[]): Test | null {
  if (!(subject in SUBJECTS)) return null;
  if (!verbsOf(subject as Subject).includes(verb)) return null;
  if (isSingle(verb) && values.length !== 1) return null;
  return { kind: 'test', not: false, subject: subject as Subject, verb, values };
}

/** Reads a condition. Returns null if the form cannot show it without a loss. */
export function parsed(text: string): Junction | null {
  if (/^\s*(true)?\s*$/.test(text)) return { kind: 'all', not: false, items: [] };
  try {
    const node = new Reader(text).whole();
    if ((node.kind === 'all' || node.kind === 'any') && !node.not) return node;
    return { kind: 'all', not: false, items: [node] };
  } catch (error) {
    if (error instanceof Unclear) return null;
    throw error;
  }
}

const literal = (value: string): string =>
  `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
const pattern = (value: string): string => (value.includes('"') ? literal(value) : `r"${value}"`);
const literals = (values: readonly string[]): string => values.map(literal).join(', ');

function printedTest({ not, subject, verb, values }: Test): string {
  const no = not ? '!' : '';
  const first = values[0] ?? '';
  switch (verb) {
    case 'holds':
      return `${no}${subject}`;
    case 'any':
    case 'between':
      return `${no}${subject}(${literals(values)})`;
    case 'within':
      return `${no}${subject}.in(${literals(values)})`;
    case 'under':
      return `${no}${subject}.under(${literals(values)})`;
    case 'matches':
      return `${no}${subject}.matches(${pattern(first)})`;
    case 'is':
      if (values.length === 1 && subject === 'qtype') {
        return `${subject} ${not ? '!=' : '=='} ${literal(first)}`;
      }
      if (values.length === 1) {
        return not ? `!(${subject} == ${literal(first)})` : `${subject} == ${literal(first)}`;
      }
      return not ? `!(${subject} in [${literals(values)}])` : `${subject} in [${literals(values)}]`;
    default:
      return `${no}${subject}.${verb}(${literal(first)})`;
  }
}

/** Returns a condition as text. */
export function printed(node: ConditionNode, inside: 'all' | 'any' | null = null): string {
  if (node.kind === 'test') return printedTest(node);
  if (node.kind === 'text') return node.text;
  const [only] = node.items;
  if (!only) return node.not ? 'false' : 'true';
  if (node.items.length === 1 && !node.not) return printed(only, inside);
  const sign = node.kind === 'all' ? ' && ' : ' || ';
  const text = node.items.map((item) => printed(item, node.kind)).join(sign);
  if (node.not) return `!(${text})`;
  return inside && inside !== node.kind ? `(${text})` : text;
}
