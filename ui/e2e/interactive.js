// Measures the first load of a page: the time on a CPU slowed down by a factor of four, from the
// navigation until the page shows its data and the browser is idle enough to paint; and the CPU time
// of the page's thread until then, on the CPU as it is. Other programs on the machine change the CPU
// time little, but the slowdown multiplies what they take.
//
//   npm run interactive -- [--rounds N] [--page PATH] [BUILD ...]
//
// compares builds in turns, in English and German; by default `dist` alone. An empty cache, and
// compressed files.

import { readdir, readFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { close, Visitor } from './browser.js';
import { Server } from './server.js';

const SLOWDOWN = 4;
const LANGUAGES = ['en', 'de'];
const MEDIA = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
/** Most time of one load. */
const PATIENCE = 20_000;

/** Reads a build, compressed once. */
async function read(dist) {
  const files = new Map();
  for (const name of await readdir(dist, { recursive: true })) {
    const octets = await readFile(path.join(dist, name)).catch(() => null);
    if (octets) files.set(`/${name}`, { type: MEDIA[path.extname(name)], body: gzipSync(octets, { level: 9 }) });
  }
  return files;
}

/** Serves a build, and passes all else to the server. */
async function serve(dist, server) {
  const files = await read(dist);
  const agent = new http.Agent({ keepAlive: true });
  const site = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, server.url);
    if (/^\/(api|metrics|health|ready)\b/.test(pathname)) {
      const headers = { ...request.headers, host: new URL(server.url).host };
      if (headers.origin) headers.origin = server.url;
      const passed = http.request(new URL(request.url, server.url), { agent, method: request.method, headers });
      passed.on('response', (reply) => {
        response.writeHead(reply.statusCode, reply.headers);
        reply.pipe(response);
      });
      passed.on('error', () => response.destroy());
      // A page that is closed ends its requests.
      response.on('close', () => passed.destroy());
      request.pipe(passed);
      return;
    }
    const { type, body } = files.get(pathname) ?? files.get('/index.html');
    response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' });
    response.end(body);
  });
  await new Promise((done) => site.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${site.address().port}`;
  return { url, session: (name) => server.session(name), stop: () => site.closeAllConnections() || site.close() };
}

/** Notes in the page when it shows its data. */
function watch() {
  const look = () => {
    const isThere = document.querySelector('#content h1') && !document.querySelector('.loading');
    if (!isThere) return void requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => (globalThis.interactiveAt = performance.now())));
  };
  look();
}

/** Returns the CPU time of the page's thread so far, in milliseconds. */
async function spent(session) {
  const { metrics } = await session.send('Performance.getMetrics');
  const millis = (name) => 1000 * (metrics.find((one) => one.name === name)?.value ?? 0);
  return { script: millis('ScriptDuration'), task: millis('TaskDuration') };
}

/** Loads a page once, with an empty cache, on a CPU slowed down by a factor. */
async function load(site, address, language, rate) {
  const visitor = await Visitor.arrive(site, { language });
  const { page } = visitor;
  try {
    const [key, value] = (await site.session('viewer')).split('=');
    await visitor.context.addCookies([{ name: key, value, url: site.url }]);
    const session = await visitor.context.newCDPSession(page);
    // The process of the site, without any of its scripts.
    await page.goto('/icon.svg');
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    await session.send('Emulation.setCPUThrottlingRate', { rate });
    await page.addInitScript(watch);
    const before = await spent(session);
    await visitor.forget();
    await page.goto(address, { waitUntil: 'commit' });
    await page.waitForFunction(() => globalThis.interactiveAt, null, { polling: 100, timeout: PATIENCE });
    const after = await spent(session);
    const at = await page.evaluate(() => globalThis.interactiveAt);
    return { at, script: after.script - before.script, task: after.task - before.task, octets: visitor.octets };
  } finally {
    await visitor.leave();
  }
}

function summary({ slowed, plain }) {
  const of = (loads, name) => {
    const sorted = loads.map((one) => one[name]).sort((a, b) => a - b).map(Math.round);
    return { median: sorted[sorted.length >> 1], least: sorted[0], most: sorted.at(-1) };
  };
  const at = of(slowed, 'at');
  const [script, task, octets] = ['script', 'task', 'octets'].map((name) => of(plain, name));
  return (
    `${at.median} ms (${at.least} to ${at.most}) slowed down, ` +
    `CPU ${task.median} ms (${task.least} to ${task.most}), ` +
    `of it scripts ${script.median} ms (${script.least} to ${script.most}), ${octets.median} octets`
  );
}

const { values, positionals: builds } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '7' },
    page: { type: 'string', default: '/' },
  },
});
if (builds.length === 0) builds.push(new URL('../dist', import.meta.url).pathname);
const server = await Server.start();
const sites = [];
try {
  await server.live();
  for (const dist of builds) sites.push(await serve(path.resolve(dist), server));
  const loads = new Map();
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const language of LANGUAGES) {
      for (const [at, site] of sites.entries()) {
        const key = `${language} ${builds[at]}`;
        if (!loads.has(key)) loads.set(key, { slowed: [], plain: [] });
        loads.get(key).plain.push(await load(site, values.page, language, 1));
        loads.get(key).slowed.push(await load(site, values.page, language, SLOWDOWN));
      }
    }
  }
  for (const key of [...loads.keys()].sort()) console.log(`${key}: ${summary(loads.get(key))}`);
} finally {
  for (const site of sites) site.stop();
  await close();
  await server.stop();
}
