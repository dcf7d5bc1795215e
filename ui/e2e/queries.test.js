// The page of queries: live view, search, the story of a query, and what can be done about it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, close, PAGE_LOAD, Visitor } from './browser.js';
import { EVIL, Server } from './server.js';

let server;
before(async () => {
  server = await Server.start();
  await server.live();
});
after(async () => {
  await close();
  await server?.stop();
});

/** The evil name in presentation format. */
const NAME = '<img\\032src=x\\032onerror=alert\\(1\\)>.example';
const rows = (page) => page.locator('[role=row][aria-rowindex]');

test('queries look right', async () => {
  await checkLooks(server, 'queries', '/queries', (page) => rows(page).first().waitFor());
});

test('the story of a query looks right', async () => {
  await checkLooks(server, 'story', '/queries?kind=blocked', async (page) => {
    await rows(page).first().click();
    await page.locator('dialog').getByText('decides').first().waitFor();
  });
});

test('a query appears while the page is open, and its name is text', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/');
  await visitor.settle();
  await visitor.forget();
  await visitor.open('Queries');
  await page.getByText('Live ·').waitFor();
  const own = visitor.octets;
  await server.ask('fresh.example.com', { from: '127.0.0.11' });
  await page.getByRole('gridcell', { name: 'fresh.example.com' }).waitFor();
  await server.ask(EVIL, { from: '127.0.0.11' });
  await rows(page).filter({ hasText: NAME }).first().click();
  await page.locator('dialog').getByText('Received and admitted').waitFor();
  await visitor.checkInjection();
  await visitor.checkAccess();
  assert.ok(own < PAGE_LOAD, `${own} octets`);
  visitor.check();
  await visitor.leave();
});

test('a text filters as it is typed, and becomes a chip and a part of the address', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/queries');
  await page.getByRole('combobox', { name: 'Filter queries' }).fill('ads.example');
  await page.getByRole('gridcell', { name: 'banner.ads.example' }).first().waitFor();
  await rows(page).filter({ hasText: 'example.com' }).first().waitFor({ state: 'detached' });
  await page.keyboard.press('Enter');
  await page.getByText('Contains: ads.example').waitFor();
  assert.equal(new URL(page.url()).searchParams.get('contains'), 'ads.example');
  await page.reload();
  await page.getByText('Contains: ads.example').waitFor();
  await page.getByRole('button', { name: 'Blocked' }).click();
  await rows(page).filter({ hasText: 'ads.example' }).first().waitFor();
  await page.getByRole('combobox', { name: 'Filter queries' }).fill('nothing.invalid');
  await page.getByText('No query matches').waitFor();
  visitor.check();
  await visitor.leave();
});

test('a part of a name finds old and new queries', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/queries');
  await page.getByText('Live ·').waitFor();
  await page.getByRole('combobox', { name: 'Filter queries' }).fill('ANNer.a');
  await page.getByRole('gridcell', { name: 'banner.ads.example' }).first().waitFor();
  await rows(page).filter({ hasText: 'example.com' }).first().waitFor({ state: 'detached' });
  await page.keyboard.press('Enter');
  await page.getByText('Contains: ANNer.a').waitFor();
  await page.getByText('Live ·').waitFor();
  await server.ask('other.example.com', { from: '127.0.0.11' });
  await server.ask('planner.a.example.com', { from: '127.0.0.11' });
  await page.getByRole('gridcell', { name: 'planner.a.example.com' }).first().waitFor();
  assert.equal(await page.getByRole('gridcell', { name: 'other.example.com' }).count(), 0);
  await page.keyboard.press('/');
  await page.getByRole('combobox', { name: 'Search', exact: true }).fill('banner');
  await page.getByRole('option', { name: 'banner queries for names with it' }).click();
  await page.waitForURL('**/queries?contains=banner');
  visitor.check();
  await visitor.leave();
});

test('rows and stories work by keyboard', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/queries?live=no');
  await rows(page).nth(3).waitFor();
  await page.getByRole('grid').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  const title = page.locator('dialog h2');
  await title.waitFor();
  const first = await title.textContent();
  await page.keyboard.press('j');
  await page.waitForFunction((text) => document.querySelector('dialog h2')?.textContent !== text, first);
  assert.ok(new URL(page.url()).searchParams.get('entry'));
  await page.keyboard.press('Escape');
  await title.waitFor({ state: 'detached' });
  assert.equal(new URL(page.url()).searchParams.get('entry'), null);
  visitor.check();
  await visitor.leave();
});

test('an operator grants for a while and undoes it, and may not change rules', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('operator', '/queries?name=ads.example&live=no&device=tablet');
  await rows(page).first().click();
  const dialog = page.locator('dialog');
  assert.equal(await dialog.getByRole('button', { name: 'Allow', exact: true }).count(), 0);
  await dialog.getByRole('button', { name: 'Allow for a while' }).click();
  await page.getByRole('menuitem', { name: '45 minutes' }).first().click();
  await page.getByText('ads.example is allowed for').waitFor();
  assert.match(await server.avocet(['policy', 'status']), /ads\.example/);
  await page.getByText('This would be decided differently now').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.waitForFunction(async () => {
    const reply = await fetch('/api/v1/policy');
    return (await reply.json()).grants.length === 0;
  });
  visitor.check();
  await visitor.leave();
});

test('an admin allows a name for good, and undoes it', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/queries?name=track.example&live=no');
  await rows(page).first().click();
  await page.locator('dialog').getByRole('button', { name: 'Allow', exact: true }).click();
  await page.getByText('track.example is allowed from now on').waitFor();
  const rules = async () => (await page.request.get('/api/v1/policy').then((reply) => reply.json())).rules;
  assert.ok((await rules()).some((rule) => rule.name === 'allow track.example'));
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('button', { name: 'Undo' }).waitFor({ state: 'detached' });
  for (let left = 50; left > 0 && (await rules()).length > 1; left -= 1) {
    await page.waitForTimeout(100);
  }
  assert.ok(!(await rules()).some((rule) => rule.name === 'allow track.example'));
  visitor.check();
  await visitor.leave();
});

test('the search in the top bar opens by a slash and leads to queries', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/');
  await visitor.settle();
  await page.keyboard.press('/');
  await page.keyboard.type('quer');
  await page.getByRole('option', { name: 'Queries page' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/queries');
  await page.getByRole('combobox', { name: 'Search', exact: true }).fill('ads.example');
  await page.getByRole('option', { name: 'ads.example queries for it' }).waitFor();
  await visitor.checkAccess();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/queries?under=ads.example');
  visitor.check();
  await visitor.leave();
});
