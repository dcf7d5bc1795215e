// Keeps a picture of every page, its dialogs, the log-in and the set-up, as dark, light and on a
// phone, and of some in German: `npm run gallery` writes them into `target/gallery`, or the folder
// in GALLERY. Arguments are parts of names. Faults of each page are printed: look at the pictures.

import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { close, Visitor } from './browser.js';
import { atHome, openBlockPage, withHousehold } from './household.js';
import { Server } from './server.js';

const FOLDER = path.resolve(
  process.env.GALLERY ?? new URL('../../target/gallery', import.meta.url).pathname,
);
/** Most height of a picture of a page that is longer than the window. */
const MOST_HEIGHT = 2400;
const LOOKS = [
  { look: 'light', theme: 'light' },
  { look: 'dark', theme: 'dark' },
  { look: 'phone', theme: 'light', size: 'phone' },
  { look: 'phone-dark', theme: 'dark', size: 'phone' },
  { look: 'de', theme: 'light', language: 'de' },
  { look: 'phone-de', theme: 'dark', size: 'phone', language: 'de' },
];

const ZONES = {
  config: `
[[zone]]
name = "corp.example"
file = "corp.zone"
sign = true
`,
  files: {
    'corp.zone': `$ORIGIN corp.example.
@ 300 IN SOA ns.corp.example. admin.corp.example. 7 3600 600 86400 60
@ 300 IN NS ns
@ 300 IN MX 10 mail
ns 300 IN A 192.0.2.53
mail 300 IN A 192.0.2.25
mail 300 IN AAAA 2001:db8::25
www 300 IN CNAME mail
${Array.from({ length: 40 }, (_, at) => `host${at} 300 IN A 192.0.2.${at + 60}`).join('\n')}
`,
  },
};

const dialog = (page) => page.locator('dialog[open]').first().waitFor();
/** Clicks the first button whose text or label fits, in either language. */
const press = (page, name) => page.getByRole('button', { name }).first().click();

const NEW_RULE = `new&name=no-shops&when=${encodeURIComponent('qname.under("shop.example")')}`;
/** Pages as `[name, address, what makes it ready]`. */
const PAGES = [
  ['overview', '/'],
  ['overview-live', '/?range=live'],
  ['overview-week', '/?range=week'],
  ['queries', '/queries?live=no'],
  ['queries-blocked', '/queries?live=no&kind=blocked'],
  ['queries-none', '/queries?live=no&name=nothing.example'],
  ['story', '/queries?live=no', async (page) => {
    await page.locator('[role=row][aria-rowindex]').filter({ hasText: 'banner.ads' }).first().click();
    await dialog(page);
  }],
  ['devices', '/devices'],
  ['device', '/devices/tablet'],
  ...['phone', 'computer', 'browser', 'router', 'programs'].map((part) => [
    `connect-${part}`, `/connect/${part}`,
  ]),
  ['lists', '/filtering'],
  ['catalogue', '/filtering/catalogue'],
  ['rules', '/filtering/rules'],
  ['rule-new', `/filtering/rules?${NEW_RULE}`],
  ['trial', `/filtering/rules?${NEW_RULE}`, async (page) => {
    await press(page, /^(What would change\?|Was würde sich ändern\?)$/);
    await dialog(page);
  }],
  ['services', '/filtering/services'],
  ['schedules', '/filtering/schedules'],
  ['try', '/filtering/try?name=banner.ads.example'],
  ['records', '/names'],
  ['forwarders', '/names/forwarders'],
  ['tree', '/names/tree'],
  ['zones', '/zones'],
  ['zone', '/zones/corp.example'],
  ...['upstreams', 'cache', 'doctor', 'trust', 'listeners'].map((part) => [
    `resolver-${part}`, `/resolver/${part}`,
  ]),
  ['performance', '/performance'],
  ['runs', '/performance/runs'],
  ...['configuration', 'revisions', 'users', 'tokens', 'sessions', 'account', 'backup', 'about'].map(
    (part) => [`settings-${part}`, `/settings/${part}`],
  ),
  ['user-add', '/settings/users', async (page) => {
    await press(page, /^(Add a user|Benutzer hinzufügen)$/);
    await dialog(page);
  }],
  ['token-create', '/settings/tokens', async (page) => {
    await press(page, /^(Create a token|Token erstellen|Token anlegen)$/);
    await dialog(page);
  }],
  ['search', '/', async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('cache');
    await page.getByRole('option').first().waitFor();
  }],
  ['bell', '/', (page) => press(page, /^(Notices|Meldungen|Hinweise)/)],
  ['no-page', '/nothing'],
];
const BEFORE_LOG_IN = [['log-in', '/']];

const wanted = process.argv.slice(2);
const isWanted = (name) => wanted.length === 0 || wanted.some((part) => name.includes(part));

/** Prints what is wider than its place: the page, or a text that is cut without an ellipsis. */
async function printFaults(visitor, name) {
  const found = await visitor.page.evaluate(() => {
    const faults = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) {
      faults.push(`the page is ${root.scrollWidth - root.clientWidth} px too wide`);
    }
    for (const one of document.querySelectorAll('button, a, h1, h2, h3, label, td, th, p, span')) {
      const { overflowX, textOverflow } = getComputedStyle(one);
      const excess = one.scrollWidth - one.clientWidth;
      if (overflowX === 'hidden' && textOverflow !== 'ellipsis' && excess > 1 && one.clientWidth > 1) {
        faults.push(`cut by ${excess} px: ${one.textContent.trim().slice(0, 60)}`);
      }
    }
    return faults;
  });
  for (const fault of [...found, ...visitor.faults]) console.log(`${name}: ${fault}`);
  visitor.faults.length = 0;
}

async function keep(visitor, name) {
  const { page } = visitor;
  await printFaults(visitor, name);
  const { width, height } = page.viewportSize();
  const isDialog = (await page.locator('dialog[open]').count()) > 0;
  const long = await page.evaluate(() => document.documentElement.scrollHeight);
  if (!isDialog && long > height) {
    await page.setViewportSize({ width, height: Math.min(long, MOST_HEIGHT) });
  }
  await page.screenshot({ path: path.join(FOLDER, `${name}.png`) });
  await page.setViewportSize({ width, height });
}

/** Takes the pictures in one look. A page that is not ready is printed, and the next one follows. */
async function take(server, { look, theme, size, language }, pages, user = 'admin') {
  const visitor = await Visitor.arrive(server, { theme, size, language });
  for (const [name, address, ready] of pages) {
    const picture = `${name}-${look}`;
    if (!isWanted(picture)) continue;
    try {
      if (user) {
        await visitor.logIn(user, address);
        if (name !== 'no-page') await visitor.settle();
      } else {
        await visitor.page.goto(address);
        await visitor.page.locator('h1').first().waitFor();
      }
      await ready?.(visitor.page);
      await visitor.page.waitForLoadState('networkidle', { timeout: 2000 }).catch(() => {});
    } catch (error) {
      console.log(`${picture}: ${error.message.split('\n')[0]}`);
    }
    await keep(visitor, picture);
  }
  await visitor.leave();
}

/** The steps of the set-up, the first on a server without users. */
async function takeSetUp() {
  const server = await Server.start({ config: '', files: {}, users: false });
  const first = [['set-up', server.setUpPath()]];
  for (const look of LOOKS) await take(server, look, first, null);
  await server.addUser('admin', 'admin');
  const others = ['resolving', 'lists', 'devices'].map((step) => [`set-up-${step}`, '/', async (page) => {
    await page.goto(`/setup?step=${step}`);
    await page.locator('h1').first().waitFor();
  }]);
  for (const look of LOOKS) await take(server, look, others);
  await server.stop();
}

/** The page that a client sees at a blocked name. It is in English. */
async function takeBlockPage(server) {
  for (const { look, theme, size, language } of LOOKS) {
    const picture = `block-page-${look}`;
    if (language || !isWanted(picture)) continue;
    const visitor = await Visitor.arrive(server, { theme, size });
    await openBlockPage(visitor);
    await keep(visitor, picture);
    await visitor.leave();
  }
}

await atHome(async () => {
  await mkdir(FOLDER, { recursive: true });
  try {
    await withHousehold(async (server) => {
      for (const look of LOOKS) {
        await take(server, look, BEFORE_LOG_IN, null);
        await take(server, look, PAGES);
      }
      await takeBlockPage(server);
    }, ZONES);
    await takeSetUp();
  } finally {
    await close();
  }
  console.log(`the pictures are in ${FOLDER}`);
});
