// A household of example names for pictures: a network with addresses of a home, its lists, and an
// hour of its queries. It needs a C compiler for `tests/clock.c`, which moves the wall clock of the
// server, and `unshare` and `ip`.

import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { Server } from './server.js';

const CLOCK = new URL('../../tests/clock.c', import.meta.url).pathname;
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

const CONFIG = `
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

/** Runs work with the server of the household, after an hour of its queries. `config` and
 *  `files` add to those of the server. */
export async function withHousehold(work, { config = '', files = {} } = {}) {
  const clock = new Clock();
  await clock.setBack(MINUTES + 2);
  const lists = http.createServer(({ url }, reply) => {
    const names = UNWANTED[url.slice(1).replace('.txt', '')] ?? [];
    reply.end(`${names.join('\n')}\n`);
  });
  await new Promise((done) => lists.listen(80, LISTS, done));
  const script = (name) =>
    name === `${BROKEN}.` ? { rcode: 2 } : { delay: 4 + (name.length * 7) % 40, address: '192.0.2.7' };
  const server = await Server.start({ config: CONFIG + config, files, script, env: clock.env });
  try {
    await server.avocet(['lists', 'refresh']);
    await live(server, clock);
    await work(server);
  } finally {
    await server.stop();
    lists.close();
    clock.remove();
  }
}

/** Runs a script in a network of its own that has the addresses of the household. */
export async function atHome(main) {
  if (process.env.AVOCET_HOME_NETWORK) {
    const all = ['192.168.1.1', LISTS, ...Object.values(DEVICES).map(({ address }) => address)];
    execFileSync('ip', ['link', 'set', 'lo', 'up']);
    for (const one of all) execFileSync('ip', ['address', 'add', `${one}/32`, 'dev', 'lo']);
    await main();
    return;
  }
  const args = ['--net', '--user', '--map-root-user', process.execPath, ...process.argv.slice(1)];
  const env = { ...process.env, AVOCET_HOME_NETWORK: 'yes' };
  process.exitCode = spawnSync('unshare', args, { env, stdio: 'inherit' }).status ?? 1;
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

/** Opens the page that a client sees at a blocked name. */
export async function openBlockPage(visitor) {
  visitor.page.removeAllListeners('request');
  await visitor.context.unrouteAll();
  const body = await blockPage();
  await visitor.page.route('**/*', (route) => route.fulfill({ body, contentType: 'text/html' }));
  await visitor.page.goto(`http://${BLOCKED}/`);
}
