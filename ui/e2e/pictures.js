// Makes the pictures of README and manual: the pages of the server of a household, as a browser
// shows them (`household.js` has what it needs).

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { close, Visitor } from './browser.js';
import { atHome, openBlockPage, withHousehold } from './household.js';

const PICTURES = new URL('../../docs/manual/pictures/', import.meta.url).pathname;
/** Of WebP, in percent. */
const QUALITY = 82;
/** Octets of a picture. */
const MOST = 150_000;
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

/** The page that a client sees at a blocked name. */
async function shootBlockPage(server) {
  const visitor = await Visitor.arrive(server, { theme: 'light' });
  await visitor.page.setViewportSize({ width: 720, height: 560 });
  await openBlockPage(visitor);
  await keep(visitor, 'interface-block-page');
  await visitor.leave();
}

await atHome(() =>
  withHousehold(async (server) => {
    try {
      const wanted = process.argv.slice(2);
      for (const shot of SHOTS) {
        if (wanted.length === 0 || wanted.includes(shot.name)) await shoot(server, shot);
      }
      if (wanted.length === 0 || wanted.includes('interface-block-page')) await shootBlockPage(server);
    } finally {
      await close();
    }
  }),
);
