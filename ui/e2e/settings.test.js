// Settings: configuration, revisions, access, backup.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { EVIL, PASSWORD, Server } from './server.js';

let server;
before(async () => {
  server = await Server.start();
  const comment = ['--comment', `look at ${EVIL}`];
  await server.avocet(['config', 'set', 'policy.block-ttl-secs', '45', ...comment]);
});
after(async () => {
  await close();
  await server?.stop();
});

/** Returns a value in force, read by a command. */
async function inForce(table, key) {
  const token = await server.token();
  const reply = await fetch(`${server.url}/api/v1/config?table=${table}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return (await reply.json()).tables[table][key];
}

test('a value is checked by the server, saved, and undone', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings/configuration/cache');
  await visitor.settle();
  const field = page.getByRole('textbox', { name: 'max-ttl-secs', exact: true });
  await field.fill('99999999');
  await page.getByText(/expected an integer from 0 to 604800/).waitFor();
  await visitor.checkAccess();
  await field.fill('7200');
  await page.getByText(/expected an integer/).waitFor({ state: 'detached' });
  await page.getByRole('switch', { name: 'prefetch' }).click();
  await page.getByText('2 changes are not saved').waitFor();
  await page.getByRole('button', { name: 'Review' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('+max-ttl-secs = 7200').waitFor();
  await visitor.picture('settings-review');
  await dialog.getByRole('textbox', { name: 'Comment' }).fill(`why not ${EVIL}`);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved and in force.').waitFor();
  // The one applies at once, the other after a restart.
  assert.equal(await inForce('cache', 'prefetch'), false);
  await page.getByText('Some changes need a restart').waitFor();
  assert.match(await readFile(server.file, 'utf8'), /max-ttl-secs = 7200/);
  assert.equal(await field.inputValue(), '7200');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('Undone').waitFor();
  assert.doesNotMatch(await readFile(server.file, 'utf8'), /max-ttl-secs/);
  assert.equal(await inForce('cache', 'prefetch'), true);
  await visitor.checkInjection();
  visitor.check();
  await visitor.leave();
});

test('the search finds keys by their description, in the address', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings');
  await visitor.settle();
  await page.getByRole('searchbox').fill('expired records');
  await page.getByText('serve-stale', { exact: true }).waitFor();
  assert.match(page.url(), /search=expired/);
  await page.reload();
  await page.getByText('serve-stale', { exact: true }).waitFor();
  await page.getByRole('searchbox').fill('no such key at all');
  await page.getByText('No key has these words').waitFor();
  visitor.check();
  await visitor.leave();
});

test('about has the licence of each package in the pages', async () => {
  const visitor = await Visitor.arrive(server);
  await visitor.logIn('viewer', '/settings/about');
  await visitor.settle();
  await visitor.page.getByText('smol-toml').waitFor();
  await visitor.page.getByText('BSD-3-Clause').waitFor();
  visitor.check();
  await visitor.leave();
});

test('a phone shows the tab of the part that is open', async () => {
  const visitor = await Visitor.arrive(server, { size: 'phone', language: 'de' });
  await visitor.logIn('admin', '/settings/about');
  await visitor.settle();
  const box = await visitor.page.locator('nav a[aria-current=page]').last().boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box));
  await visitor.checkWidth();
  visitor.check();
  await visitor.leave();
});

test('every key of the schema has its input', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  const file = new URL('../../crates/config/schema.json', import.meta.url);
  const schema = JSON.parse(await readFile(file, 'utf8'));
  await visitor.logIn('admin', '/settings/configuration/server');
  await visitor.settle();
  for (const [table, { properties = {}, type }] of Object.entries(schema.properties)) {
    if (type === 'array') continue;
    await page.locator(`a[href="/settings/configuration/${table}"]`).click();
    for (const key of Object.keys(properties)) {
      await page.locator(`[id="${table}.${key}"]`).locator('input, select, textarea, button').first().waitFor();
    }
  }
  visitor.check();
  await visitor.leave();
});

test('an entry of a table is added and removed', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings/configuration/record');
  await visitor.settle();
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('name').fill('nas.lan');
  await dialog.getByLabel('type').fill('A');
  await dialog.getByLabel('values').fill('192.168.1.20');
  await dialog.getByRole('button', { name: 'Add' }).click();
  await page.getByText('nas.lan A is added.').waitFor();
  assert.equal(await server.ask('nas.lan'), 0);
  const entry = page.locator('details').filter({ hasText: 'nas.lan A' });
  await entry.locator('summary').click();
  await entry.getByRole('button', { name: 'Remove nas.lan A' }).click();
  await page.getByText('nas.lan A is removed.').waitFor();
  assert.doesNotMatch(await readFile(server.file, 'utf8'), /nas.lan/);
  visitor.check();
  await visitor.leave();
});

test('a revision shows its difference and is put in force again', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await server.avocet(['config', 'set', 'policy.block-ttl-secs', '33']);
  await visitor.logIn('admin', '/settings/revisions');
  await visitor.settle();
  await page.getByRole('link', { name: /why not/ }).click();
  await page.getByText('+max-ttl-secs = 7200').waitFor();
  assert.match(page.url(), /revisions\/\d+$/);
  await visitor.checkAccess();
  await visitor.checkInjection();
  await visitor.picture('settings-revision');
  await page.getByRole('button', { name: 'Put in force again' }).click();
  await page.getByText(/is in force again/).waitFor();
  assert.equal(await inForce('cache', 'prefetch'), false);
  assert.equal(await inForce('policy', 'block-ttl-secs'), 45);
  visitor.check();
  await visitor.leave();
});

test('a change on probation is confirmed', async () => {
  await server.avocet(['config', 'set', 'config.probation-secs', '120']);
  await server.avocet(['config', 'confirm']).catch(() => {});
  await server.avocet(['config', 'set', 'policy.block-ttl-secs', '34']);
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings/revisions');
  await page.getByText(/is on probation for another/).waitFor();
  await visitor.picture('settings-probation');
  await page.getByRole('button', { name: 'Keep it' }).click();
  await page.getByText(/Revision \d+ stays/).waitFor();
  await page.getByText(/is on probation for another/).waitFor({ state: 'detached' });
  await server.avocet(['config', 'unset', 'config.probation-secs']);
  await server.avocet(['config', 'confirm']).catch(() => {});
  visitor.check();
  await visitor.leave();
});

test('a user with a limit is added, changed and removed', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings/users');
  await visitor.settle();
  await page.getByRole('button', { name: 'Add a user' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('ada');
  await dialog.getByLabel('Password').fill(PASSWORD);
  await dialog.getByLabel('Role').selectOption('operator');
  await dialog.getByLabel('Only these groups').fill('kids');
  await visitor.checkAccess();
  await visitor.picture('settings-user');
  await dialog.getByRole('button', { name: 'Add' }).click();
  await page.getByText('ada can log in.').waitFor();
  assert.match(await server.avocet(['user', 'list']), /ada.*operator.*kids/s);
  await page.getByRole('button', { name: 'Change ada' }).click();
  await dialog.getByLabel('Role').selectOption('viewer');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('ada is changed.').waitFor();
  assert.match(await server.avocet(['user', 'list']), /ada.*viewer.*kids/s);
  await page.getByRole('button', { name: 'Change ada' }).click();
  await dialog.getByRole('button', { name: 'Remove the user' }).click();
  await dialog.getByText('Passwords cannot be restored').waitFor();
  await dialog.getByRole('button', { name: 'Remove the user' }).click();
  await page.getByText('ada is removed.').waitFor();
  assert.doesNotMatch(await server.avocet(['user', 'list']), /ada/);
  visitor.check();
  await visitor.leave();
});

test('a token is shown once, works, and is revoked', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings/tokens');
  await visitor.settle();
  await page.getByRole('button', { name: 'Create a token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('grafana');
  await dialog.getByRole('checkbox', { name: /status:read/ }).check();
  await dialog.getByRole('button', { name: 'Create' }).click();
  const token = (await dialog.locator('pre').textContent()).trim();
  const headers = { authorization: `Bearer ${token}` };
  assert.equal((await fetch(`${server.url}/api/v1/status`, { headers })).status, 200);
  assert.equal((await fetch(`${server.url}/api/v1/users`, { headers })).status, 403);
  await visitor.checkAccess();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Revoke grafana' }).click();
  await page.getByRole('button', { name: /loses access/ }).click();
  await page.getByText('The token grafana is revoked.').waitFor();
  assert.equal((await fetch(`${server.url}/api/v1/status`, { headers })).status, 401);
  visitor.check();
  await visitor.leave();
});

/** Returns the code of an authenticator application (RFC 6238). */
function codeOf(secret, at = Date.now()) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...secret.replace(/[^A-Z2-7]/g, '')]
    .map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0'))
    .join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((octet) => parseInt(octet, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const digest = createHmac('sha1', key).update(counter).digest();
  const from = digest[19] & 15;
  return String((digest.readUInt32BE(from) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

test('a second factor is set up by its QR code, and needed at the next log-in', async () => {
  await server.addUser('grace', 'viewer');
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logInByPage('grace', '/settings/account');
  await visitor.settle();
  const card = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Second factor' }) });
  await card.getByLabel('Password').fill(PASSWORD);
  await card.getByRole('button', { name: 'Set up' }).click();
  await page.getByRole('img', { name: /QR code/ }).waitFor();
  await visitor.checkAccess();
  await visitor.picture('settings-factor');
  const secret = (await card.locator('pre').textContent()).trim();
  await card.getByLabel(/Code that the application shows/).fill(codeOf(secret));
  await card.getByRole('button', { name: 'Put it in force' }).click();
  await page.getByText('The second factor is in force').waitFor();
  assert.equal((await card.locator('pre').textContent()).trim().split('\n').length, 10);
  assert.match(await server.avocet(['user', 'list']), /grace/);
  visitor.check();
  await visitor.leave();
  const again = await Visitor.arrive(server);
  await again.page.goto('/');
  await again.page.getByRole('textbox', { name: /^name$/i }).fill('grace');
  await again.page.locator('input[type=password]').fill(PASSWORD);
  await again.page.locator('button[type=submit]').click();
  await again.page.getByLabel(/Code of your authenticator/).waitFor();
  await again.leave();
});

test('the own password changes, and the session ends', async () => {
  await server.addUser('alan', 'viewer');
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logInByPage('alan', '/settings/account');
  await visitor.settle();
  await page.getByLabel('Present password').fill(PASSWORD);
  await page.getByLabel('New password', { exact: true }).fill('another long secret');
  await page.getByLabel('New password again').fill('another long secret');
  await page.getByRole('button', { name: 'Change the password' }).click();
  await page.getByRole('textbox', { name: /^name$/i }).fill('alan');
  await page.locator('input[type=password]').fill('another long secret');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Settings' }).waitFor();
  visitor.check();
  await visitor.leave();
});

test('a backup is downloaded, and waits for the restart after its upload', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('admin', '/settings/backup');
  await visitor.settle();
  const waiting = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download' }).click();
  const file = await (await waiting).path();
  assert.match(await readFile(file, 'utf8'), /"avocet-backup"/);
  const choose = page.getByLabel('File of a backup');
  await choose.setInputFiles({ name: 'no.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from('no\n') });
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('alert').waitFor();
  await choose.setInputFiles(file);
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByText('The backup waits for the next start').waitFor();
  await visitor.checkTimes();
  await visitor.checkAccess();
  visitor.check();
  await visitor.leave();
});

test('a viewer sees history, account and version, and no controls', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/settings');
  await visitor.settle();
  const tabs = page.getByRole('navigation', { name: 'Settings' }).getByRole('link');
  assert.deepEqual(await tabs.allTextContents().then((all) => all.map((one) => one.trim())), [
    'Revisions',
    'Sessions',
    'Your account',
    'About',
  ]);
  await page.getByRole('link', { name: /why not/ }).first().click();
  await page.getByText('Texts may have secrets').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Put in force again' }).count(), 0);
  await page.goto('/settings/configuration');
  await page.getByText('Your role does not include this page').waitFor();
  visitor.check();
  await visitor.leave();
});

for (const [name, address] of [
  ['settings', '/settings/configuration/server'],
  ['settings-history', '/settings/revisions'],
  ['settings-users', '/settings/users'],
  ['settings-account', '/settings/account'],
  ['settings-backup', '/settings/backup'],
  ['settings-about', '/settings/about'],
]) {
  test(`${address} looks right`, async () => checkLooks(server, name, address));
}

test('a user sees the own sessions and ends one; an admin sees those of all', async () => {
  const [other, visitor] = [await Visitor.arrive(server), await Visitor.arrive(server)];
  await other.logInByPage('viewer', '/');
  await other.settle();
  await visitor.logInByPage('viewer', '/settings/sessions');
  const { page } = visitor;
  await page.getByText('this browser').waitFor();
  await page.getByRole('heading', { name: 'Your sessions' }).waitFor();
  const count = await page.getByRole('button', { name: /^End: viewer/ }).count();
  assert.ok(count >= 1);
  await visitor.checkAccess();
  await page.getByRole('button', { name: /^End: viewer/ }).first().click();
  await page.getByText('The session of viewer has ended.').waitFor();
  visitor.check();
  await visitor.leave();
  await other.leave();
  await checkLooks(server, 'settings-sessions', '/settings/sessions', (page) =>
    page.getByRole('heading', { name: 'Sessions of all users' }).waitFor(),
  );
});
