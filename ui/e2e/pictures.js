// Makes the pictures of README and manual: a household of example names, its queries of the past
// hour, and the pages as a browser shows them. It needs a C compiler for `tests/clock.c`, which moves
// the wall clock of the server, and `unshare` and `ip` for a network with addresses of a home.

import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { close, Visitor } from './browser.js';
import { Server } from './server.js';

const PICTURES = new URL('../../docs/manual/pictures/', import.meta.url).pathname;
const CLOCK = new URL('../../tests/clock.c', import.meta.url).pathname;
/** Of WebP, in percent. */
const QUALITY = 82;
/** Octets of a picture. */
const MOST = 150_000;
/** Minutes of queries before the pictures. */
const MINUTES = 60;
/** Milliseconds between two looks of the server at its clock, and some more. */
const CLOCK_PAUSE = 1100;
const BLOCK_PAGE = '192.168.1.1:80';
const BLOCKED = 'banner.ads.example';
const LISTS = '192.168.1.2';

const DEVICES = {
  laptop: { address: '192.168.1.20', group: 'adults', share: 30 },
  phone: { address: '192.168.1.21', group: 'adults', share: 24 },
  tablet: { address: '192.168.1.30', group: 'kids', share: 16 },
  console: { address: '192.168.1.31', group: 'kids', share: 8 },
  television: { address: '192.168.1.40', group: 'default', share: 14 },
  thermostat: { address: '192.168.1.50', group: 'default', share: 3 },
};

const VISITED = [
  'www.example.com', 'mail.example.net', 'news.example.org', 'cdn.example.com', 'api.weather.example',
  'static.shop.example', 'www.shop.example', 'img.video.example', 'stream.video.example',
  'login.school.example', 'files.school.example', 'time.example.net', 'updates.example.org',
  'chat.example.net', 'maps.travel.example', 'printer.home.example', 'radio.music.example',
];
const UNWANTED = {
  ads: ['ads.example', 'banner.ads.example', 'bid.adnet.example', 'pixel.adnet.example'],
  trackers: ['metrics.example', 'collect.metrics.example', 'telemetry.tv.example', 'adnet.example'],
  malware: ['login-shop.invalid.example'],
};
const GAMES = 'play.games.example';
const BROKEN = 'old-radio.example';

const config = `
${Object.keys(UNWANTED).map((name) => `[[list]]\nname = "${name}"\nurl = "http://${LISTS}/${name}.txt"\n`).join('\n')}
[[group]]
name = "adults"
clients = ["192.168.1.20", "192.168.1.21"]

[[group]]
name = "kids"
clients = ["192.168.1.30", "192.168.1.31"]

${Object.entries(DEVICES).map(([name, { address }]) => `[[client]]\nname = "${name}"\nids = ["${address}"]\n`).join('\n')}
[[rule]]
name = "games-after-homework"
when = 'client.group("kids") && qname.under("games.example")'
action = "block"

[[rule]]
name = "bedtime"
when = 'client.group("kids") && qname.under("video.example") && now.between("20:30", "06:30")'
action = "block"

[[record]]
name = "printer.home.example"
type = "A"
values = ["192.168.1.9"]

[policy]
block-answer = "addresses"
block-page = ["${BLOCK_PAGE}"]
block-addresses = ["192.168.1.1"]
`;

/** Returns numbers from 0 to 1, the same in each run. */
function draws(seed = 7) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The wall clock of the server. */
class Clock {
  #directory = mkdtempSync(path.join(os.tmpdir(), 'avocet-clock-'));
  #file;

  constructor() {
    const library = path.join(this.#directory, 'clock.so');
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, CLOCK]);
    const shift = path.join(this.#directory, 'shift');
    this.#file = openSync(shift, 'w');
    this.env = { LD_PRELOAD: library, SHIFTCLOCK_FILE: shift };
  }

  /** Sets the clock back, and waits until the server has read it. */
  async setBack(minutes) {
    const shifts = Buffer.alloc(16);
    shifts.writeBigInt64LE(-BigInt(Math.round(minutes * 60e9)));
    writeSync(this.#file, shifts, 0, shifts.length, 0);
    await new Promise((done) => setTimeout(done, CLOCK_PAUSE));
  }

  remove() {
    closeSync(this.#file);
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Sends the queries of an hour, minute by minute. */
async function live(server, clock) {
  const draw = draws();
  const pick = (all) => all[Math.floor(draw() ** 1.6 * all.length)];
  const clients = Object.values(DEVICES).flatMap(({ address, share }) => Array(share).fill(address));
  const unwanted = Object.values(UNWANTED).flat();
  for (let minute = MINUTES; minute > 0; minute -= 1) {
    await clock.setBack(minute - 0.2);
    const busy = 24 + 14 * Math.sin(minute / 6) + 12 * draw();
    for (let left = busy; left > 0; left -= 1) {
      const from = clients[Math.floor(draw() * clients.length)];
      const dice = draw();
      const name = dice < 0.17 ? pick(unwanted) : dice < 0.185 ? BROKEN : pick(VISITED);
      await server.ask(name, { from, type: draw() < 0.3 ? 'AAAA' : 'A' });
    }
    if (minute % 9 === 0) await server.ask(GAMES, { from: DEVICES.tablet.address });
  }
  await clock.setBack(0);
  for (const name of ['news.example.org', 'banner.ads.example', 'www.shop.example', GAMES]) {
    await server.ask(name, { from: DEVICES.tablet.address });
  }
}

/** Keeps the window as WebP, which Chromium writes itself, and as PNG for people to look at. */
async function keep(visitor, name) {
  await visitor.picture(name);
  const session = await visitor.context.newCDPSession(visitor.page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  const picture = Buffer.from(data, 'base64');
  if (picture.length > MOST) throw new Error(`${name} has ${picture.length} octets`);
  await mkdir(PICTURES, { recursive: true });
  await writeFile(path.join(PICTURES, `${name}.webp`), picture);
  console.log(`${name}.webp: ${picture.length} octets`);
}

const row = (page, name) => page.locator('[role=row][aria-rowindex]').filter({ hasText: name }).first();

const SHOTS = [
  { name: 'interface-overview', theme: 'dark', address: '/' },
  { name: 'interface-overview-light', theme: 'light', address: '/' },
  { name: 'interface-phone', theme: 'dark', size: 'phone', address: '/' },
  {
    name: 'interface-story',
    theme: 'light',
    address: '/queries?live=no',
    async ready(page) {
      await row(page, 'banner.ads.example').click();
      await page.locator('dialog').getByText('decides').first().waitFor();
    },
  },
  { name: 'interface-filtering', theme: 'dark', address: '/filtering' },
  {
    name: 'interface-what-would-change',
    theme: 'light',
    address: `/filtering/rules?new&name=no-shops&when=${encodeURIComponent('qname.under("shop.example")')}`,
    async ready(page) {
      await page.getByText('The server accepts this rule.').waitFor();
      await page.getByRole('button', { name: 'What would change?' }).click();
      await page.getByRole('dialog').getByText(/would be blocked/).first().waitFor();
    },
  },
];

async function shoot(server, { name, theme, size, address, ready }) {
  const visitor = await Visitor.arrive(server, { theme, size });
  await visitor.logIn('admin', address);
  await visitor.settle();
  await ready?.(visitor.page);
  await visitor.page.waitForLoadState('networkidle').catch(() => {});
  await keep(visitor, name);
  visitor.check();
  await visitor.leave();
}

/** Returns the page that the server shows the tablet at a blocked name. */
async function blockPage() {
  const [host, port] = BLOCK_PAGE.split(':');
  const localAddress = DEVICES.tablet.address;
  const reply = await new Promise((done, fail) =>
    http.get({ host, port, localAddress, headers: { host: BLOCKED } }, done).on('error', fail),
  );
  return (await reply.toArray()).join('');
}

/** The page that a client sees at a blocked name. */
async function shootBlockPage(server) {
  const visitor = await Visitor.arrive(server, { theme: 'light' });
  visitor.page.removeAllListeners('request');
  await visitor.context.unrouteAll();
  await visitor.page.route('**/*', async (route) => route.fulfill({ body: await blockPage(), contentType: 'text/html' }));
  await visitor.page.setViewportSize({ width: 720, height: 560 });
  await visitor.page.goto(`http://${BLOCKED}/`);
  await keep(visitor, 'interface-block-page');
  await visitor.leave();
}

async function main() {
  const clock = new Clock();
  await clock.setBack(MINUTES + 2);
  const lists = http.createServer(({ url }, reply) => {
    const names = UNWANTED[url.slice(1).replace('.txt', '')] ?? [];
    reply.end(`${names.join('\n')}\n`);
  });
  await new Promise((done) => lists.listen(80, LISTS, done));
  const script = (name) =>
    name === `${BROKEN}.` ? { rcode: 2 } : { delay: 4 + (name.length * 7) % 40, address: '192.0.2.7' };
  const server = await Server.start({ config, script, env: clock.env });
  try {
    await server.avocet(['lists', 'refresh']);
    await live(server, clock);
    const wanted = process.argv.slice(2);
    for (const shot of SHOTS) {
      if (wanted.length === 0 || wanted.includes(shot.name)) await shoot(server, shot);
    }
    if (wanted.length === 0 || wanted.includes('interface-block-page')) await shootBlockPage(server);
  } finally {
    await close();
    await server.stop();
    lists.close();
    clock.remove();
  }
}

if (process.env.AVOCET_HOME_NETWORK) {
  const all = ['192.168.1.1', LISTS, ...Object.values(DEVICES).map(({ address }) => address)];
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  for (const one of all) execFileSync('ip', ['address', 'add', `${one}/32`, 'dev', 'lo']);
  await main();
} else {
  const args = ['--net', '--user', '--map-root-user', process.execPath, ...process.argv.slice(1)];
  const env = { ...process.env, AVOCET_HOME_NETWORK: 'yes' };
  process.exitCode = spawnSync('unshare', args, { env, stdio: 'inherit' }).status ?? 1;
}
