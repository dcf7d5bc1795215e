// The tables and keys of the configuration by their schema, and values as TOML.

import { parse } from 'smol-toml';
import document from '../../../../crates/config/schema.json';
import type { ShownConfig } from '../../api/schema';

/** A part of the schema, as far as this page reads it. */
interface Schema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  items?: Schema;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
}

export type Value = boolean | number | string | readonly (number | string)[] | null;

/** How a value is entered. */
export type Form = 'switch' | 'choice' | 'number' | 'decimal' | 'size' | 'secret' | 'text' | 'lines' | 'mixed';

/** A key of a table. */
export interface Key {
  name: string;
  help: string;
  form: Form;
  /** The value without an entry in the file; `null` if the help says what happens. */
  fallback: Value;
  choices: readonly string[];
  minimum: number | undefined;
  maximum: number | undefined;
  isRequired: boolean;
}

/** A table of the configuration. */
export interface Table {
  name: string;
  help: string;
  keys: Key[];
  /** Whether the file may have several, each with a name. */
  isRepeated: boolean;
}

function formOf(name: string, schema: Schema): Form {
  if (schema.enum) return 'choice';
  if (schema.type === 'boolean') return 'switch';
  if (schema.type === 'integer') return 'number';
  if (schema.type === 'number') return 'decimal';
  if (schema.type === 'array') return 'lines';
  const kinds = (schema.anyOf ?? []).map((one) => one.type);
  if (kinds.includes('integer')) return 'size';
  if (Array.isArray(schema.type) || kinds.includes('boolean')) return 'mixed';
  return /secret$/.test(name) ? 'secret' : 'text';
}

function keysOf(schema: Schema): Key[] {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([name, one]) => ({
    name,
    help: (one.description ?? '').replace(/\s*\n\s*/g, ' '),
    form: formOf(name, one),
    fallback: (one.default ?? null) as Value,
    choices: one.enum ?? [],
    minimum: one.minimum,
    maximum: one.maximum,
    isRequired: required.includes(name),
  }));
}

function tables(): Table[] {
  const { properties = {} } = document as unknown as Schema;
  const all = Object.entries(properties).map(([name, schema]) => ({
    name,
    help: (schema.description ?? '').replace(/\s*\n\s*/g, ' '),
    keys: keysOf(schema.items ?? schema),
    isRepeated: schema.type === 'array',
  }));
  return [...all.filter((one) => !one.isRepeated), ...all.filter((one) => one.isRepeated)];
}

export const TABLES = tables();

/** Entries of a table that occurs several times, by what edits call them. */
export interface Entry {
  id: string;
  values: Record<string, Value>;
}

type Values = Record<string, Value>;

function idOf(table: string, values: Values): string {
  const name = String(values.name ?? values.zone ?? '');
  if (table === 'record') return `${name} ${String(values.type)}`;
  // Zones of one name differ in the first item of their view.
  const first = table === 'zone' && Array.isArray(values.view) ? (values.view[0] as unknown) : undefined;
  return typeof first === 'string' ? `${name}/${first}` : name;
}

/** The configuration file as values: what it has, without defaults. */
export type FileValues = Record<string, Values | Values[] | undefined>;

/** Reads the text of a configuration, which the server has accepted. */
export function fileValues(text: string): FileValues {
  return parse(text) as unknown as FileValues;
}

/** The entries of the file. Those in force have further ones, which no edit finds. */
export function entriesOf(file: FileValues, table: Table): Entry[] {
  const found = file[table.name];
  if (!Array.isArray(found)) return [];
  return found.map((values) => ({ id: idOf(table.name, values), values }));
}

/** The values of the file in a table that occurs once. */
export function valuesIn(file: FileValues, table: Table): Values {
  const found = file[table.name];
  return found && !Array.isArray(found) ? found : {};
}

/** The values in force of a table that occurs once. */
export function valuesOf(config: ShownConfig, table: Table): Values {
  return (config.tables[table.name] ?? {}) as Values;
}

const SIZES: [number, string][] = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB']];

/** A size as in the file, such as 64MiB. */
function sizeText(octets: number): string {
  const [size, unit] = SIZES.find(([one]) => octets >= one && octets % one === 0) ?? [1, ''];
  return `${octets / size}${unit}`;
}

/** A value as people edit it: an array has a line for each of its values. */
export function shown(key: Key, value: Value): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.join('\n');
  if (key.form === 'size' && typeof value === 'number') return sizeText(value);
  return String(value);
}

/** Returns the value that a text of an input stands for. */
export function valueOf(key: Key, text: string): Value {
  const trimmed = text.trim();
  const isNumber = /^-?\d+$/.test(trimmed);
  switch (key.form) {
    case 'switch':
      return trimmed === 'true';
    case 'number':
      return isNumber ? Number(trimmed) : trimmed;
    case 'decimal':
      return /^-?\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
    case 'size':
      return isNumber ? Number(trimmed) : trimmed;
    case 'mixed':
      return trimmed === 'true' || trimmed === 'false' ? trimmed === 'true' : trimmed;
    case 'lines':
      return trimmed
        .split('\n')
        .map((line) => line.trim())
        .filter(Boolean)
        .map((line) => (key.name.endsWith('ports') && /^\d+$/.test(line) ? Number(line) : line));
    default:
      return key.form === 'secret' ? text : trimmed;
  }
}

/** A value as TOML: its strings have the escapes of JSON. */
export function toml(value: Value): string {
  if (Array.isArray(value)) return `[${value.map((one) => JSON.stringify(one)).join(', ')}]`;
  return JSON.stringify(value);
}

/** A table in one line of TOML. */
export function inlineTable(values: Values): string {
  const parts = Object.entries(values).map(([name, value]) => `${name} = ${toml(value)}`);
  return `{ ${parts.join(', ')} }`;
}

/** What edits call a key. */
export function pathOf(table: Table, entry: string | null, key: Key): string {
  return entry === null ? `${table.name}.${key.name}` : `${table.name}[${entry}].${key.name}`;
}

/** Takes the place in the file from the messages of the server: the field shows the place. */
export function withoutPlace(message: string): string {
  return message
    .split('\n')
    .map((line) => line.replace(/^\S*?:\d+:\d+: /, ''))
    .join('\n');
}
