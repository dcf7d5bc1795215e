// Names: records and forwarders that a page adds are in the next answer.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { Upstream } from './dns.js';
import { HOUSEHOLD, Server } from './server.js';

const NOERROR = 0;
const NXDOMAIN = 3;

let server;
let upstream;
let address;
before(async () => {
  upstream = new Upstream();
  // All names below corp.example exist only at this server.
  address = await upstream.start(() => ({ rcode: NOERROR }));
  server = await Server.start({
    config: `${HOUSEHOLD}
[[record]]
name = "<img src=x onerror=alert(1)>.lan."
type = "TXT"
values = ["text"]
`.replace('<img src=x onerror=alert(1)>', '<img\\\\032src=x\\\\032onerror=alert\\\\(1\\\\)>'),
    script: () => ({ rcode: NXDOMAIN }),
  });
});
after(async () => {
  await close();
  await server?.stop();
  upstream?.stop();
});

const visit = (address, work, user) => Visitor.visit(server, { user, address }, work);

const textbox = (page, name) => page.getByRole('textbox', { name, exact: true });

test('a record is added, changed, removed and restored', async () => {
  assert.equal(await server.ask('nas.lan'), NXDOMAIN);
  await visit('/names?new=1', async (page) => {
    await textbox(page, 'Name').fill('nas.lan');
    await textbox(page, 'Data').fill('192.168.1');
    await page.getByText('is not valid data of type A').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Save' }).isDisabled());
    await textbox(page, 'Data').fill('192.168.1.5');
    await page.getByRole('button', { name: 'Save', disabled: false }).click();
    await page.getByText('The record of nas.lan is in force.').waitFor();
    assert.equal(await server.ask('nas.lan'), NOERROR);
    await page.getByRole('link', { name: 'nas.lan', exact: true }).click();
    await textbox(page, 'Name').fill('disk.lan');
    await page.getByRole('button', { name: 'Save', disabled: false }).click();
    await page.getByText('The record of disk.lan is in force.').waitFor();
    assert.equal(await server.ask('nas.lan'), NXDOMAIN);
    assert.equal(await server.ask('disk.lan'), NOERROR);
    await page.getByRole('button', { name: 'Remove: disk.lan A' }).click();
    await page.getByText('The record disk.lan A is removed.').waitFor();
    assert.equal(await server.ask('disk.lan'), NXDOMAIN);
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await page.getByText('The change is undone.').waitFor();
    assert.equal(await server.ask('disk.lan'), NOERROR);
  });
});

test('a record with the last dot in the file is changed', async () => {
  await visit('/names', async (page) => {
    await page.getByRole('button', { name: /Remove: <img.*TXT/ }).click();
    await page.getByText(/The record <img.* is removed/).waitFor();
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await page.getByText('The change is undone.').waitFor();
  });
});

test('a forwarder is added, and its zone answers', async () => {
  assert.equal(await server.ask('www.corp.example'), NXDOMAIN);
  await visit('/names/forwarders?new=1', async (page) => {
    await textbox(page, 'Zone').fill('corp.example');
    await textbox(page, 'Servers').fill('192.0.2');
    await page.getByText('expected a server such as').waitFor();
    await textbox(page, 'Servers').fill(address);
    await page.getByRole('button', { name: 'Save', disabled: false }).click();
    await page.getByText('The forwarder for corp.example is in force.').waitFor();
    assert.equal(await server.ask('mail.corp.example'), NOERROR);
    await page.getByRole('link', { name: 'Tree' }).click();
    await page.getByRole('link', { name: address }).waitFor();
    await page.getByText('printer').first().waitFor();
    await page.getByRole('link', { name: 'no-games' }).click();
    await page.getByRole('heading', { name: 'no-games' }).waitFor();
  });
});

test('a viewer is not offered the page', async () => {
  const visitor = await Visitor.arrive(server);
  await visitor.logIn('viewer', '/names');
  await visitor.page.getByText('Your role does not include this page').waitFor();
  visitor.check();
  await visitor.leave();
});

test('the parts look right', async () => {
  await checkLooks(server, 'names', '/names');
  await checkLooks(server, 'names-record', '/names?new=1');
  await checkLooks(server, 'names-forwarders', '/names/forwarders');
  await checkLooks(server, 'names-tree', '/names/tree');
});
