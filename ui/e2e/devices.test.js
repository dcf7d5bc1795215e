// Devices: names, groups, pauses and merges change what the server answers to their next query.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const NOERROR = 0;
const NXDOMAIN = 3;
const TABLET = '127.0.0.12';
const STRANGER = '127.0.0.13';
const PHONE = '127.0.0.14';

let server;
before(async () => {
  server = await Server.start({ config: `${HOUSEHOLD}\n[policy]\nblock-answer = "nxdomain"\n` });
  await server.live();
  await server.ask('www.shop.co.uk', { from: STRANGER });
  await server.ask('img.shop.co.uk', { from: STRANGER });
  await server.ask('<img src=x onerror=alert(1)>.example', { from: STRANGER });
  await server.ask('example.com', { from: PHONE });
  // A thread of the server writes the log, and the page reads it once.
  const log = () => server.avocet(['log', 'search', '--client', PHONE]);
  while (!(await log()).includes('example.com'));
});
after(async () => {
  await close();
  await server?.stop();
});

const visit = (address, work, user, size) => Visitor.visit(server, { user, address, size }, work);

const games = (from) => server.ask('games.example', { from });
const textbox = (page, name) => page.getByRole('textbox', { name, exact: true });

test('on a phone the counts of a device and its times are rows of two', async () => {
  const work = async (page) => {
    const tablet = page.getByRole('row').filter({ hasText: 'tablet' });
    const top = async (caption) => (await tablet.getByText(caption, { exact: true }).boundingBox()).y;
    assert.equal(await top('First seen'), await top('Last seen'));
    assert.equal(await top('Queries'), await top('Blocked'));
    assert.ok((await top('Queries')) < (await top('First seen')));
  };
  await visit('/devices', work, 'admin', 'phone');
});

test('devices are listed with their addresses and groups, and can be found', async () => {
  await visit('/devices', async (page) => {
    const tablet = page.getByRole('row').filter({ hasText: 'tablet' });
    await tablet.getByText(TABLET).waitFor();
    await tablet.getByText('kids').waitFor();
    // The first and the latest query, each with UTC on hover.
    assert.equal(await tablet.locator('time[title*=UTC]').count(), 2);
    await page.getByRole('searchbox', { name: 'Find a device' }).fill('127.0.0.13');
    await page.getByRole('link', { name: STRANGER }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'tablet' }).count(), 0);
    await page.getByRole('link', { name: STRANGER }).click();
    await page.getByText('First seen').waitFor();
    const { clients } = await page.request.get('/api/v1/queries/clients').then((reply) => reply.json());
    const { first, last } = clients.find(({ client }) => client === STRANGER);
    assert.ok(first > 0 && first <= last && last <= Date.now() / 1000 + 1, `${first} ${last}`);
    assert.equal(clients.find(({ client }) => client === TABLET)['client-name'], 'tablet');
  });
});

test('filtering is paused for one device by two clicks, and goes on by the undo', async () => {
  assert.equal(await games(TABLET), NXDOMAIN);
  await visit('/devices', async (page, visitor) => {
    await page.getByRole('button', { name: 'Pause filtering: tablet' }).click();
    await page.getByRole('menuitem', { name: /Pause for 1.h/ }).click();
    await page.getByText('Filtering is paused for tablet').waitFor();
    assert.equal(await games(TABLET), NOERROR);
    await page.getByText('paused until').waitFor();
    await visitor.checkTimes();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('paused until').waitFor({ state: 'detached' });
    assert.equal(await games(TABLET), NXDOMAIN);
  }, 'operator');
});

test('an unknown device gets a name and a group, and its rules apply', async () => {
  assert.equal(await games(STRANGER), NOERROR);
  await visit(`/devices/${STRANGER}`, async (page) => {
    await textbox(page, 'Name').fill('console');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText(`${STRANGER} is called console.`).waitFor();
    await page.getByRole('heading', { level: 1, name: 'console' }).waitFor();
    await page.getByRole('button', { name: 'kids', pressed: false }).click();
    await page.getByText('console is in the group kids.').waitFor();
    assert.equal(await games(STRANGER), NXDOMAIN);
    await page.getByRole('button', { name: 'kids', pressed: true }).click();
    await page.getByText('console is not in the group kids any more.').waitFor();
    assert.equal(await games(STRANGER), NOERROR);
  });
});

test('two identities become one device', async () => {
  assert.equal(await games(PHONE), NOERROR);
  const before = await server.text();
  await visit('/devices/tablet', async (page) => {
    await page.getByRole('combobox', { name: 'The same device as' }).fill(PHONE);
    await page.getByRole('button', { name: 'Add' }).first().click();
    await page.getByText(`${PHONE} and tablet are one device.`).waitFor();
    assert.equal(await games(PHONE), NXDOMAIN);
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await page.getByText('The change is undone.').waitFor();
    assert.equal(await games(PHONE), NOERROR);
    await page.getByRole('combobox', { name: 'The same device as' }).fill('laptop');
    await page.getByRole('button', { name: 'Add' }).first().click();
    await page.getByText('laptop and tablet are one device.').waitFor();
    assert.equal(await games('127.0.0.11'), NXDOMAIN);
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await page.getByText('The change is undone.').nth(1).waitFor();
  });
  assert.equal(await server.text(), before);
});

test('a device shows its week by registered domain', async () => {
  await visit('/devices/console', async (page) => {
    const row = page.getByRole('row').filter({ hasText: 'shop.co.uk' });
    await row.getByText('2', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'shop.co.uk', exact: true }).click();
    await page.getByText('img.shop.co.uk').waitFor();
    await page.getByRole('link', { name: 'Block shop.co.uk for this device' }).click();
    await page.getByText('The server accepts this rule.').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('is in force').waitFor();
    assert.equal(await server.ask('new.shop.co.uk', { from: STRANGER }), NXDOMAIN);
    assert.equal(await server.ask('new.shop.co.uk', { from: PHONE }), NOERROR);
  });
});

test('a viewer changes nothing', async () => {
  await visit('/devices/tablet', async (page) => {
    await page.getByRole('row').filter({ hasText: 'ads.example' }).first().waitFor();
    assert.equal(await page.getByRole('button', { name: /Pause|Save|Add|Forget|kids/ }).count(), 0);
    assert.equal(await textbox(page, 'Name').count(), 0);
  }, 'viewer');
});

test('the parts look right', async () => {
  await checkLooks(server, 'devices', '/devices', async (page) => {
    await page.getByRole('link', { name: 'tablet' }).waitFor();
    // Two identities are separate again, with times of their own.
    const phone = page.getByRole('row').filter({ hasText: PHONE });
    assert.equal(await phone.locator('time[title*=UTC]').count(), 2);
  });
  await checkLooks(server, 'device', '/devices/console', (page) =>
    page.getByRole('row').filter({ hasText: 'shop.co.uk' }).waitFor(),
  );
});
