// A browser for tests, and the checks that hold for every page: no error in the console, no
// violation of the content policy, nothing serious by axe, names as text, a bounded transfer.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { PASSWORD } from './server.js';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const SCREENS = new URL('screens/', import.meta.url).pathname;
const AXE = new URL('../node_modules/axe-core/axe.min.js', import.meta.url);
/** Octets of a first load, and of each page after it, compressed. */
export const FIRST_LOAD = 150_000;
export const PAGE_LOAD = 40_000;

/** With `UI_DIST`, pages come from the last build in `ui/dist` instead of the binary, with the headers
 *  of the server, so that a change of a page needs no build of the server. */
const DIST = process.env.UI_DIST ? new URL('../dist/', import.meta.url).pathname : null;
const MEDIA = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

async function serveDist(context, server) {
  const { headers } = await fetch(server.url);
  const policy = headers.get('content-security-policy');
  await context.route('**/*', async (route) => {
    const { pathname } = new URL(route.request().url());
    if (/^\/(api|metrics|health|ready)\b/.test(pathname)) return route.fallback();
    const file = /^\/(assets\/|icon|early)/.test(pathname) ? pathname : 'index.html';
    return route.fulfill({
      body: await readFile(path.join(DIST, file)),
      headers: { 'content-type': MEDIA[path.extname(file)], 'content-security-policy': policy },
    });
  });
}

const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

let browser;

/** Returns the browser, which all tests of a file share. */
export async function launch() {
  const args = ['--disable-dev-shm-usage'];
  // Chromium refuses its sandbox to root, as in containers.
  if (process.getuid?.() === 0) args.push('--no-sandbox');
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args });
  return browser;
}

export async function close() {
  lookers.clear();
  await browser?.close();
  browser = undefined;
}

/** A person at a browser. */
export class Visitor {
  /** What went wrong so far. */
  faults = [];
  /** Octets received, as sent over the network, since `forget`. */
  octets = 0;

  static async arrive(server, { size = 'wide', theme = 'light', language = 'en', touch } = {}) {
    const visitor = new Visitor();
    visitor.server = server;
    const running = await launch();
    visitor.context = await running.newContext({
      viewport: SIZES[size],
      colorScheme: theme,
      locale: language,
      timezoneId: 'Europe/Berlin',
      hasTouch: touch ?? size === 'phone',
      reducedMotion: 'reduce',
      baseURL: server.url,
    });
    if (DIST) await serveDist(visitor.context, server);
    visitor.page = await visitor.context.newPage();
    await visitor.#watch();
    return visitor;
  }

  /** Works on a page as a user, who has seen no error and no name that acted as markup. */
  static async visit(server, { user = 'admin', address = '/', ...look }, work) {
    const visitor = await Visitor.arrive(server, look);
    try {
      await visitor.logIn(user, address);
      await visitor.settle();
      await work(visitor.page, visitor);
      await visitor.checkInjection();
      visitor.check();
    } finally {
      await visitor.leave();
    }
  }

  async #watch() {
    const { page, faults } = this;
    page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
    page.on('console', (message) => {
      const text = message.text();
      // The browser reports each refused request: tests of refusals look at the page instead.
      const isRefusal = /Failed to load resource.*(401|403|404|409|412|422|429|503)/.test(text);
      if (message.type() === 'error' && !isRefusal) faults.push(`console: ${text}`);
      if (/Content.Security.Policy/i.test(text)) faults.push(`policy: ${text}`);
    });
    page.on('dialog', (dialog) => {
      faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (protocol.startsWith('http') && origin !== this.server.url) {
        faults.push(`request to ${origin}`);
      }
    });
    const session = await this.context.newCDPSession(page);
    await session.send('Network.enable');
    session.on('Network.loadingFinished', (event) => (this.octets += event.encodedDataLength));
  }

  /** Goes to an address with the session that all visits of a user share. */
  async logIn(name = 'admin', address = '/') {
    const [key, value] = (await this.server.session(name)).split('=');
    await this.context.addCookies([
      { name: key, value, url: this.server.url, httpOnly: true, sameSite: 'Strict' },
    ]);
    await this.page.goto(address);
    await this.page.locator('#content').waitFor();
  }

  /** Begins a session through the page, and stays at the address. */
  async logInByPage(name = 'admin', address = '/') {
    await this.page.goto(address);
    await this.page.getByRole('textbox', { name: /^name$/i }).fill(name);
    await this.page.locator('input[type=password]').fill(PASSWORD);
    await this.page.locator('button[type=submit]').click();
    await this.page.locator('#content').waitFor();
  }

  /** Goes to a page by its link in the navigation, as people do. */
  async open(name) {
    await this.page.getByRole('navigation').getByRole('link', { name }).click();
    await this.settle();
  }

  /** Counts octets from now on, once all of the page has arrived. */
  async forget() {
    await this.page.waitForLoadState('networkidle');
    this.octets = 0;
  }

  /** Waits until the page shows its content. */
  async settle() {
    await this.page.locator('#content h1').first().waitFor();
    await this.page.locator('.loading').first().waitFor({ state: 'detached' });
  }

  /** Checks that nothing went wrong so far. */
  check() {
    assert.deepEqual(this.faults, []);
  }

  /** Checks the page by axe (WCAG 2.2 A and AA), or by some of its rules only. */
  async checkAccess(rules = null) {
    const isThere = await this.page.evaluate(() => 'axe' in globalThis);
    if (!isThere) await this.page.evaluate(await readFile(AXE, 'utf8'));
    const found = await this.page.evaluate(async (only) => {
      // Colours that are still changing, for example after another look was chosen, have no
      // contrast to judge.
      for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
      const isFinite = ({ effect }) => Number.isFinite(effect?.getComputedTiming().endTime);
      const ending = document.getAnimations().filter(isFinite);
      await Promise.allSettled(ending.map(({ finished }) => finished));
      const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
      const { violations } = await globalThis.axe.run(document, {
        runOnly: only ? { type: 'rule', values: only } : tags,
        // Most of the time went into describing the elements that pass.
        resultTypes: ['violations'],
        preload: false,
      });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join('\n')}`);
    }, rules);
    assert.deepEqual(found, []);
  }

  /** Checks that no markup of a name became an element. */
  async checkInjection() {
    assert.equal(await this.page.locator('img[src="x"]').count(), 0);
  }

  /** Checks that each time of day in the text has a hover with UTC, or belongs to an element with
   *  one. The axes of charts are drawn. */
  async checkTimes() {
    const bare = await this.page.evaluate(() => {
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const found = [];
      while (walker.nextNode()) {
        const { data, parentElement } = walker.currentNode;
        // As English texts have them. A schedule or a port has no AM or PM.
        if (!/\b\d{1,2}:\d\d(:\d\d)?\s?[AP]M\b/.test(data)) continue;
        if (!parentElement.closest('[title*=UTC], svg')) found.push(data.trim());
      }
      return found;
    });
    assert.deepEqual(bare, []);
  }

  /** Checks that the page is not wider than the window. */
  async checkWidth() {
    const excess = await this.page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.ok(excess <= 0, `the page is ${excess} px wider than the window`);
  }

  /** Keeps a picture of the window, for people to look at. */
  async picture(name) {
    await mkdir(SCREENS, { recursive: true });
    await this.page.screenshot({ path: path.join(SCREENS, `${name}.png`) });
  }

  async leave() {
    await this.context.close();
  }
}

/** Visitors who only look, by server and size: a window and its cache serve all pages of a file. */
const lookers = new Map();

/** The looks of a page in a window: the first is there as the page loads, and another by a change of
 *  the preference, after which the page has the same elements in other colours. */
const LOOKS = [
  ['wide', ['dark', 'light']],
  ['phone', ['phone']],
];
/** The rules of axe that read colours. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/** Visits a page as dark, light and on a phone, with all checks and a picture of each. `ready`
 *  waits for what the page shows. */
export async function checkLooks(server, name, address, ready = async () => {}, user = 'admin') {
  for (const [size, [first, ...others]] of LOOKS) {
    const key = `${server.url} ${size}`;
    const visitor = lookers.get(key) ?? (await Visitor.arrive(server, { size }));
    lookers.set(key, visitor);
    try {
      await visitor.page.emulateMedia({ colorScheme: first === 'dark' ? 'dark' : 'light' });
      await visitor.logIn(user, address);
      await visitor.settle();
      await ready(visitor.page);
      await visitor.picture(`${name}-${first}`);
      await visitor.checkInjection();
      await visitor.checkWidth();
      await visitor.checkTimes();
      await visitor.checkAccess();
      for (const look of others) {
        await visitor.page.emulateMedia({ colorScheme: look });
        await visitor.picture(`${name}-${look}`);
        await visitor.checkAccess(COLOUR_RULES);
      }
      visitor.check();
      // A page that nobody looks at would go on asking the server.
      await visitor.page.goto('about:blank');
    } catch (error) {
      lookers.delete(key);
      await visitor.leave();
      throw error;
    }
  }
}
