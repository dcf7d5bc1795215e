// A user with limits: each page works, and shows queries and clients of its groups alone.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { close, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const NOERROR = 0;
const NXDOMAIN = 3;
const TABLET = '127.0.0.12';
const LAPTOP = '127.0.0.11';

let server;
before(async () => {
  server = await Server.start({ config: `${HOUSEHOLD}\n[policy]\nblock-answer = "nxdomain"\n` });
  await server.addUser('kim', 'operator', ['--group', 'kids']);
  await server.live();
  // A thread of the server writes the log, and the pages read it once.
  const log = () => server.avocet(['log', 'search', '--client', LAPTOP]);
  while (!(await log()).includes('printer.lan'));
});
after(async () => {
  await close();
  await server?.stop();
});

async function visit(address, work) {
  const visitor = await Visitor.arrive(server);
  try {
    await visitor.logIn('kim', address);
    await visitor.settle();
    await work(visitor.page, visitor);
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

test('pages with queries count and list those of the groups alone, and say so', async () => {
  for (const address of ['/', '/?range=day', '/?range=live', '/queries', '/devices']) {
    await visit(address, async (page) => {
      await page.getByText('Only queries of kids').waitFor();
      await page.getByText('tablet').or(page.getByText(TABLET)).first().waitFor();
      assert.equal(await page.getByText(LAPTOP).count(), 0, address);
      assert.equal(await page.getByText('laptop').count(), 0, address);
      assert.equal(await page.getByText('printer.lan').count(), 0, address);
    });
  }
});

test('the other pages work for a user with limits', async () => {
  const addresses = [
    '/connect', '/filtering', '/filtering/rules', '/filtering/try', '/zones', '/resolver',
    '/performance', '/settings', `/devices/${TABLET}`,
  ];
  for (const address of addresses) {
    await visit(address, async (page) => {
      await page.locator('h1').first().waitFor();
      assert.equal(await page.getByText('is limited to groups or zones').count(), 0, address);
    });
  }
});

test('the DNSSEC doctor, which asks for names of any zone, is not offered', async () => {
  await visit('/resolver', async (page) => {
    await page.getByRole('link', { name: 'Upstreams', exact: true }).first().waitFor();
    assert.equal(await page.getByRole('link', { name: 'DNSSEC doctor' }).count(), 0);
  });
});

test('the shield pauses filtering for the own group', async () => {
  await visit('/', async (page) => {
    assert.equal(await server.ask('games.example', { from: TABLET }), NXDOMAIN);
    await page.getByRole('button', { name: 'Filtering' }).click();
    assert.equal(await page.getByRole('menuitem', { name: 'Pause for 15 min', exact: true }).count(), 0);
    await page.getByRole('menuitem', { name: /for kids/ }).first().click();
    await page.getByText(/is paused for .* for kids/).waitFor();
    assert.equal(await server.ask('games.example', { from: TABLET }), NOERROR);
    assert.equal(await server.ask('ads.example', { from: LAPTOP }), NXDOMAIN);
  });
});
