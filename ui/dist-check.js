// Fails if ui/dist is not the result of the sources. The build itself writes elsewhere.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';

const stored = new URL('dist', import.meta.url).pathname;
const made = mkdtempSync(join(tmpdir(), 'avocet-dist-'));

function files(directory) {
  const all = readdirSync(directory, { recursive: true, withFileTypes: true });
  const names = all.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  return new Set(names.map((name) => name.slice(directory.length + 1)));
}

await build({ root: new URL('.', import.meta.url).pathname, logLevel: 'warn', build: { outDir: made } });
const [have, want] = [files(stored), files(made)];
have.delete('.gitkeep');
const differs = (name) =>
  !have.has(name) || !want.has(name) || !readFileSync(join(stored, name)).equals(readFileSync(join(made, name)));
const faults = [...new Set([...have, ...want])].filter(differs).sort();
rmSync(made, { recursive: true });
if (faults.length > 0) {
  console.error(`ui/dist is not the result of the sources:\n  ${faults.join('\n  ')}`);
  console.error('run "npm run build --prefix ui" and commit ui/dist');
  process.exit(1);
}
console.log(`ui/dist is current: ${want.size} files`);
