// Pools: targets with their health and its reason, decisions with their undo, and what if. One
// target accepts connections, and the other one refuses them.

import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { checkLooks, close, PAGE_LOAD, Visitor } from './browser.js';
import { Server } from './server.js';

const [UP, DOWN] = ['127.0.0.21', '127.0.0.22'];
const NAME = 'www.corp.example';

let server;
const targets = [];

/** Accepts connections at an address; returns the port. */
async function listen(address) {
  const target = net.createServer((socket) => socket.on('error', () => {}).end());
  await new Promise((done) => target.listen(0, address, done));
  targets.push(target);
  return target.address().port;
}

before(async () => {
  const probe = `probe = "tcp"\nport = ${await listen(UP)}\ninterval-secs = 1\n`;
  server = await Server.start({
    config: `
[[pool]]
name = "${NAME}"
addresses = ["${UP}", "${DOWN}"]
${probe}
[[pool]]
name = "first.corp.example"
mode = "first"
addresses = ["${UP} weight 3", "127.0.0.23 probe 127.0.0.24:${await listen('127.0.0.24')}"]
${probe}
[[pool]]
name = "dead.corp.example"
addresses = ["${DOWN}", "2001:db8:1234:5678:9abc:def0:1234:5678 probe ${DOWN}"]
when-all-down = "none"
${probe}`,
  });
});
after(async () => {
  await close();
  await server?.stop();
  for (const target of targets) target.close();
});

async function visit(address, work, user = 'operator') {
  const visitor = await Visitor.arrive(server);
  try {
    await visitor.logIn(user, address);
    await visitor.settle();
    await work(visitor.page, visitor);
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

/** Returns the addresses that a client gets. */
async function answer(name) {
  const resolver = new Resolver();
  resolver.setServers([`${server.dns.address}:${server.dns.port}`]);
  return (await resolver.resolve4(name)).sort();
}

/** A target of the pool that the page shows. */
const row = (page, address) => page.getByRole('listitem').filter({ hasText: address });

test('pools and a pool look right', async () => {
  await checkLooks(server, 'pools', `/zones/pools?down=${UP}`, async (page) => {
    await page.getByText('1 of 2 healthy').waitFor();
    await page.getByText('Then').first().waitFor();
  });
  await checkLooks(server, 'pool', `/zones/pools/${NAME}`, async (page) => {
    await row(page, DOWN).getByText('Down', { exact: true }).first().waitFor();
    await row(page, DOWN).locator('summary').click();
    await page.getByText('Now', { exact: true }).waitFor();
  });
});

test('a viewer sees which targets are healthy and why, and may not decide', async () => {
  await visit('/', async (page, visitor) => {
    await visitor.forget();
    await visitor.open('Zones');
    await page.getByRole('link', { name: 'Pools' }).click();
    if (!process.env.UI_DIST) assert.ok(visitor.octets < PAGE_LOAD, `${visitor.octets} octets`);
    await page.getByRole('row', { name: /first\.corp\.example/ }).getByText('2 of 2 healthy').waitFor();
    await page.getByRole('row', { name: /dead\.corp\.example/ }).getByText('0 of 2 healthy').waitFor();
    await page.getByRole('searchbox').fill(DOWN);
    await page.getByRole('link', { name: 'first.corp.example' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: NAME }).click();
    await row(page, UP).getByText('Healthy', { exact: true }).waitFor();
    await row(page, DOWN).getByText(/refused/).first().waitFor();
    await row(page, DOWN).locator('summary').click();
    await row(page, DOWN).getByRole('table').getByText('Failure').first().waitFor();
    await page.getByRole('table', { name: /What if/ }).getByText(UP).waitFor();
    assert.equal(await page.getByRole('radio').count(), 0);
    assert.equal(await page.getByRole('button', { name: /Let probes decide/ }).count(), 0);
  }, 'viewer');
});

test('an operator takes a target out, undoes it, and lets probes decide about all again', async () => {
  await visit(`/zones/pools/${NAME}`, async (page) => {
    await row(page, DOWN).getByText('Down', { exact: true }).first().waitFor();
    assert.deepEqual(await answer(NAME), [UP]);
    await row(page, DOWN).getByText('Up', { exact: true }).click();
    await row(page, DOWN).getByText('Kept in answers').waitFor();
    assert.deepEqual(await answer(NAME), [UP, DOWN]);
    await row(page, UP).getByRole('radiogroup').getByText('Down', { exact: true }).click();
    await row(page, UP).getByText('Taken out').waitFor();
    assert.deepEqual(await answer(NAME), [DOWN]);
    const message = page.getByText(`${UP} is in no answer.`);
    await page.locator('.toast').filter({ has: message }).getByRole('button', { name: 'Undo' }).click();
    await row(page, UP).getByText('Healthy', { exact: true }).waitFor();
    assert.deepEqual(await answer(NAME), [UP, DOWN]);
    await page.getByRole('button', { name: 'Let probes decide about all' }).click();
    await row(page, DOWN).getByRole('radio', { name: 'Auto', checked: true }).waitFor();
    assert.deepEqual(await answer(NAME), [UP]);
    await page.getByRole('button', { name: /Let probes decide/ }).waitFor({ state: 'detached' });
  });
});

test('what if shows the answers without a target, in all its pools', async () => {
  await visit(`/zones/pools/${NAME}`, async (page) => {
    const table = page.getByRole('table', { name: /What if/ });
    await page.getByRole('button', { name: UP }).click();
    await page.waitForURL(`**?down=${UP}`);
    await table.getByRole('row', { name: /www/ }).getByText('when-all-down').waitFor();
    const first = table.getByRole('row', { name: /first/ });
    await first.getByText('127.0.0.23').waitFor();
    const client = page.getByRole('textbox', { name: 'The client that asks' });
    await client.fill('nobody');
    await page.getByText(/nobody.*not an (IP )?address/i).waitFor();
    await client.fill('192.0.2.7');
    await page.waitForURL(`**?down=${UP}&client=192.0.2.7`);
    await first.getByText('127.0.0.23').waitFor();
    await page.reload();
    await first.getByText('127.0.0.23').waitFor();
  }, 'viewer');
});

test('the search over everything finds the pools with an address', async () => {
  await visit('/', async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('127.0.0.23');
    await page.getByRole('option', { name: 'first.corp.example pool' }).click();
    await page.waitForURL('**/zones/pools/first.corp.example');
    await page.getByRole('heading', { name: 'first.corp.example', level: 1 }).waitFor();
  }, 'viewer');
});
