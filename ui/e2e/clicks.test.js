// What people do most takes two clicks from the overview at most.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { close, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const MOST = 2;

let server;
before(async () => {
  server = await Server.start({ config: `${HOUSEHOLD}\n[policy]\nblock-answer = "nxdomain"\n` });
  await server.live();
});
after(async () => {
  await close();
  await server?.stop();
});

/** Does something from the overview, and counts the clicks. */
async function visit(work) {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  try {
    await visitor.logIn('admin', '/');
    await visitor.settle();
    let clicks = 0;
    await page.exposeFunction('countClick', () => (clicks += 1));
    await page.evaluate(() => addEventListener('click', () => globalThis.countClick(), true));
    await work(page);
    assert.ok(clicks >= 1 && clicks <= MOST, `${clicks} clicks`);
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

const card = (page, title) => page.locator('section').filter({ has: page.getByRole('heading', { name: title }) });

test('the query that was just blocked, and why', () =>
  visit(async (page) => {
    await card(page, 'Just blocked').getByRole('link', { name: 'banner.ads.example' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Blocked by the list ads').waitFor();
    await dialog.getByText('decides').first().waitFor();
  }));

test('allow it', () =>
  visit(async (page) => {
    await card(page, 'Just blocked').getByRole('link', { name: 'track.example' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Allow', exact: true }).click();
    await page.getByText('track.example is allowed from now on').waitFor();
  }));

test('allow it at once', () =>
  visit(async (page) => {
    await page.getByRole('button', { name: 'Allow: banner.ads.example' }).first().click();
    await page.getByText('banner.ads.example is allowed from now on').waitFor();
  }));

test('pause for one device', () =>
  visit(async (page) => {
    await card(page, 'Top clients').getByRole('button', { name: 'Pause filtering: tablet' }).click();
    await page.getByRole('menuitem', { name: /Pause for 1.h/ }).click();
    await page.getByText('Filtering is paused for tablet').waitFor();
  }));

test('add a list', () =>
  visit(async (page) => {
    await page.getByRole('navigation').getByRole('link', { name: 'Filtering' }).click();
    const suggested = page.getByRole('group', { name: 'Add with one click' });
    await suggested.getByRole('button').first().click();
    await page.getByText(/^The list .* is added/).waitFor();
  }));

test('see what a new rule would break', () =>
  visit(async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('mail.example.net');
    await page.getByRole('option', { name: 'what would a block change?' }).click();
    await page.getByText('The server accepts this rule.').waitFor();
    await page.getByRole('button', { name: 'What would change?' }).click();
    await page.getByRole('dialog').getByText(/judged again\.|nothing to compare/).first().waitFor();
  }));
