// Measures the first load of a page: `npm run interactive` prints the median of seven loads on a CPU
// slowed down by a factor of four, from the navigation until the page shows its data and the browser
// is idle enough to paint. Arguments are builds to compare in turns, by default `dist`.

import { createReadStream } from 'node:fs';
import { access } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { createGzip } from 'node:zlib';
import { close, Visitor } from './browser.js';
import { Server } from './server.js';

const LOADS = 7;
const SLOWDOWN = 4;
const MEDIA = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** Serves a build, and passes all else to the server. */
async function serve(dist, server) {
  const site = http.createServer(async (request, response) => {
    const { pathname } = new URL(request.url, server.url);
    if (/^\/(api|metrics|health|ready)\b/.test(pathname)) {
      const headers = { ...request.headers, host: new URL(server.url).host };
      if (headers.origin) headers.origin = server.url;
      const passed = http.request(new URL(request.url, server.url), { method: request.method, headers });
      passed.on('response', (reply) => {
        response.writeHead(reply.statusCode, reply.headers);
        reply.pipe(response);
      });
      passed.on('error', () => response.destroy());
      request.pipe(passed);
      return;
    }
    const asked = path.join(dist, pathname);
    const isFile = pathname !== '/' && (await access(asked).then(() => true, () => false));
    const file = isFile ? asked : path.join(dist, 'index.html');
    response.writeHead(200, { 'content-type': MEDIA[path.extname(file)], 'content-encoding': 'gzip' });
    createReadStream(file).pipe(createGzip()).pipe(response);
  });
  await new Promise((done) => site.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${site.address().port}`, stop: () => site.close() };
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

async function load(site) {
  const visitor = await Visitor.arrive({ url: site.url });
  const { page } = visitor;
  await visitor.logInByPage('viewer', '/');
  await visitor.settle();
  const session = await visitor.context.newCDPSession(page);
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWDOWN });
  await page.addInitScript(watch);
  await page.goto('/');
  await page.waitForFunction(() => globalThis.interactiveAt);
  const at = await page.evaluate(() => globalThis.interactiveAt);
  await visitor.leave();
  return at;
}

const builds = process.argv.slice(2);
if (builds.length === 0) builds.push(new URL('../dist', import.meta.url).pathname);
const server = await Server.start();
await server.live();
const times = builds.map(() => []);
for (let round = 0; round < LOADS; round += 1) {
  for (const [at, dist] of builds.entries()) {
    const site = await serve(path.resolve(dist), server);
    times[at].push(await load(site));
    site.stop();
  }
}
for (const [at, dist] of builds.entries()) {
  const sorted = times[at].sort((a, b) => a - b).map((time) => Math.round(time));
  console.log(`${dist}: ${sorted[LOADS >> 1]} ms (${sorted[0]} to ${sorted.at(-1)})`);
}
await close();
await server.stop();
