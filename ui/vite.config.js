import { readFileSync, writeFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

/** The server that `npm run dev` passes requests of the API to. */
const SERVER = process.env.AVOCET_URL ?? 'http://127.0.0.1:8053';

/** Names the chunk of a page by its folder, so that its file keeps its name but for the digest. */
function chunkName({ facadeModuleId, name }) {
  const page = facadeModuleId?.match(/\/pages\/([a-z-]+)\/index\.svelte$/);
  return `assets/${page ? `page-${page[1]}` : name}-[hash].js`;
}

/** The directory stays in a tree without a build, so that cargo can watch it. */
const keepDirectory = {
  name: 'keep-directory',
  closeBundle: () => writeFileSync(new URL('dist/.gitkeep', import.meta.url), ''),
};

/** Returns a chunk and all chunks that it imports at once. */
function withImports(bundle, file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  for (const other of bundle[file]?.imports ?? []) withImports(bundle, other, found);
  return found;
}

/** Returns the modules that the overview needs at once, with the shell around it: most people begin
 *  there, with one script and one style sheet. Other pages import what they share with it. */
function firstModules({ getModuleInfo, getModuleIds }) {
  const open = [...getModuleIds()].filter((id) => /\/src\/(main\.ts|pages\/overview\/index\.svelte)$/.test(id));
  const found = new Set();
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    open.push(...(getModuleInfo(id)?.importedIds ?? []));
  }
  return found;
}

/** The result of `firstModules` for a build. */
const firstOf = new WeakMap();

/** Lists the files of each page and language in the document, so that they arrive along with the
 *  first scripts. */
const listPages = {
  name: 'list-pages',
  transformIndexHtml: {
    order: 'post',
    handler(html, { bundle = {}, chunk }) {
      const first = chunk ? withImports(bundle, chunk.fileName) : new Set();
      const [pages, texts] = [{}, {}];
      for (const page of Object.values(bundle)) {
        const code = page.name?.match(/^texts-([a-z]+)$/)?.[1];
        if (code) texts[code] = `/${page.fileName}`;
        const name = page.facadeModuleId?.match(/\/pages\/([a-z-]+)\/index\.svelte$/)?.[1];
        if (!name) continue;
        const chunks = [...withImports(bundle, page.fileName)].filter((file) => !first.has(file));
        const styles = chunks.flatMap((file) => [...(bundle[file]?.viteMetadata?.importedCss ?? [])]);
        pages[name] = [...chunks, ...new Set(styles)].map((file) => `/${file}`);
      }
      const text = JSON.stringify({ texts, pages }).replaceAll('"', '&quot;');
      return html.replace('name="files" content=""', `name="files" content="${text}"`);
    },
  },
};

const PACKAGES = new URL('src/packages.json', import.meta.url);

/** Keeps the list of packages that are in the pages, which the page About shows. A build that has
 *  others renews the list and fails, so that the next one shows it. */
const listPackages = {
  name: 'list-packages',
  generateBundle(_options, bundle) {
    const found = new Map();
    for (const chunk of Object.values(bundle)) {
      for (const id of Object.keys(chunk.modules ?? {})) {
        const folder = id.match(/^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1];
        if (!folder || found.has(folder)) continue;
        const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
        found.set(folder, { name, version, licence: license });
      }
    }
    const packages = [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    const text = `${JSON.stringify(packages, null, 2)}\n`;
    if (text === readFileSync(PACKAGES, 'utf8')) return;
    writeFileSync(PACKAGES, text);
    this.error('src/packages.json is renewed: look at it, and build again');
  },
};

export default defineConfig({
  plugins: [svelte(), keepDirectory, listPackages, listPages],
  build: {
    target: ['chrome123', 'firefox128', 'safari17.5'],
    cssTarget: ['chrome123', 'firefox128', 'safari17.5'],
    // A file of its own for each asset: `data:` addresses are not in the content policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/main-[hash].js',
        chunkFileNames: chunkName,
        assetFileNames: 'assets/[name]-[hash][extname]',
        manualChunks(id, graph) {
          if (id.includes('/node_modules/uplot/') && !id.endsWith('.css')) return 'uplot';
          const language = id.match(/\/src\/texts\/([a-z]{2})\.ts$/)?.[1];
          if (language) return `texts-${language}`;
          if (!firstOf.has(graph.getModuleInfo)) firstOf.set(graph.getModuleInfo, firstModules(graph));
          if (firstOf.get(graph.getModuleInfo).has(id)) return 'main';
          // One file of components for all other pages, instead of many small ones.
          return id.includes('/src/components/') ? 'parts' : undefined;
        },
      },
    },
  },
  server: {
    // The server compares Origin with Host: both stay those of the development server.
    proxy: { '/api': { target: SERVER, changeOrigin: false } },
  },
});
