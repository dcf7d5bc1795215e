// Values of TOML, as `POST /config/changes` takes them.

export type TomlValue = string | number | boolean | readonly TomlValue[] | TomlTable;
export interface TomlTable {
  readonly [key: string]: TomlValue | undefined;
}

/** Returns a value as TOML. Keys without a value are left out of tables. */
export function toml(value: TomlValue): string {
  if (typeof value === 'string') return quoted(value);
  if (typeof value !== 'object') return String(value);
  if (isList(value)) return `[${value.map(toml).join(', ')}]`;
  const fields = Object.entries(value).flatMap(([key, one]) =>
    one === undefined ? [] : [`${key} = ${toml(one)}`],
  );
  return `{ ${fields.join(', ')} }`;
}

function isList(value: readonly TomlValue[] | TomlTable): value is readonly TomlValue[] {
  return Array.isArray(value);
}

/** Conditions have quotes in them: a literal text keeps them readable in the file. */
function quoted(text: string): string {
  const isLiteral = text.includes('"') && !/['\u0000-\u001f\u007f]/.test(text);
  if (isLiteral) return `'${text}'`;
  return JSON.stringify(text).replaceAll('\u007f', '\\u007f');
}
