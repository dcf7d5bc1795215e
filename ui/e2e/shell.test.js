// Log-in, navigation, roles, sizes and the content policy.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { close, FIRST_LOAD, Visitor } from './browser.js';
import { PASSWORD, Server } from './server.js';

let server;
before(async () => {
  server = await Server.start();
});
after(async () => {
  await close();
  await server?.stop();
});

test('a wrong password is refused with a sentence, a right one leads to the address', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await page.goto('/?step=60');
  await page.getByRole('textbox', { name: 'Name' }).fill('admin');
  await page.locator('input[type=password]').fill('wrong password');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Name or password are wrong.').waitFor();
  await visitor.checkAccess();
  await page.locator('input[type=password]').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('#content').waitFor();
  assert.equal(new URL(page.url()).search, '?step=60');
  await visitor.settle();
  visitor.check();
  await visitor.leave();
});

test('the first load is small', async () => {
  const visitor = await Visitor.arrive(server);
  await visitor.logInByPage();
  await visitor.settle();
  assert.ok(visitor.octets > 10_000 && visitor.octets < FIRST_LOAD, `${visitor.octets} octets`);
  await visitor.leave();
});

test('the end of a session leads to the log-in, and back to the same page', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logInByPage('operator', '/?step=60');
  await visitor.context.clearCookies();
  await page.getByText('Your session has ended.').waitFor({ timeout: 20_000 });
  await page.getByRole('textbox', { name: 'Name' }).fill('operator');
  await page.locator('input[type=password]').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await visitor.settle();
  assert.equal(new URL(page.url()).search, '?step=60');
  visitor.check();
  await visitor.leave();
});

test('the user menu works by keyboard, and log-out ends the session', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logInByPage('viewer');
  await page.getByRole('button', { name: 'User' }).focus();
  await page.keyboard.press('Enter');
  await visitor.checkAccess();
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  const cookies = await visitor.context.cookies();
  assert.deepEqual(cookies.filter((one) => one.name.includes('session')), []);
  visitor.check();
  await visitor.leave();
});

test('an unknown address says so, and paths of the API are no pages', async () => {
  const visitor = await Visitor.arrive(server);
  await visitor.logIn('viewer', '/nothing/here');
  await visitor.page.getByText('There is no such page').waitFor();
  await visitor.checkAccess();
  const reply = await visitor.page.request.get('/api/v1/nothing');
  assert.equal(reply.status(), 404);
  assert.equal((await reply.json()).code, 'not-found');
  visitor.check();
  await visitor.leave();
});

test('the content policy has no unsafe source, and assets are immutable', async () => {
  const page = await fetch(server.url);
  const policy = page.headers.get('content-security-policy');
  assert.ok(policy.includes("default-src 'none'") && !policy.includes('unsafe'), policy);
  assert.equal(page.headers.get('cache-control'), 'no-cache');
  const asset = (await page.text()).match(/\/assets\/main-[\w-]+\.js/)[0];
  const script = await fetch(server.url + asset);
  assert.match(script.headers.get('cache-control'), /immutable/);
  assert.equal(script.headers.get('content-encoding'), 'gzip');
  const tag = script.headers.get('etag');
  const again = await fetch(server.url + asset, { headers: { 'if-none-match': tag } });
  assert.equal(again.status, 304);
});

test('a phone has the navigation behind a button', async () => {
  const visitor = await Visitor.arrive(server, { size: 'phone', language: 'de' });
  await visitor.logIn('viewer');
  await visitor.page.getByRole('button', { name: 'Menü' }).click();
  await visitor.page.getByRole('link', { name: 'Übersicht' }).waitFor();
  await visitor.picture('navigation-phone');
  await visitor.checkWidth();
  visitor.check();
  await visitor.leave();
});

test('the search finds devices and settings by keyboard, for those who may see them', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin');
  await visitor.settle();
  await page.keyboard.press('/');
  await page.keyboard.type('tabl');
  await page.getByRole('option', { name: 'tablet device' }).waitFor();
  await page.getByRole('combobox', { name: 'Search', exact: true }).fill('serve-stale');
  await page.getByRole('option', { name: 'cache.serve-stale setting' }).first().waitFor();
  await visitor.checkAccess();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/settings\/configuration\/cache\?search=cache.serve-stale/);
  await page.getByText('serve-stale', { exact: true }).first().waitFor();
  visitor.check();
  await visitor.leave();
});
