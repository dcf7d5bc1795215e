// Transports and certificates: what clients use, and when certificates expire.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { Server } from './server.js';

const CERTIFICATES = new URL('../../crates/cli/tests/operation/certificates/', import.meta.url);
const certificate = (name, names) =>
  `[[certificate]]\nnames = [${names}]\ncert = "${name}.pem"\nkey = "${name}.key"\n`;

let server;
let tls;
let plain;
before(async () => {
  const files = {};
  for (const name of ['one.pem', 'one.key', 'expired.pem', 'expired.key']) {
    files[name] = await readFile(new URL(name, CERTIFICATES), 'utf8');
  }
  server = await Server.start({
    files,
    ports: 1,
    config: ([port]) => `
[[listener]]
name = "encrypted"
listen = ["tls://127.0.0.1:${port}"]

${certificate('one', '"dns.example"')}
${certificate('expired', '"old.example"')}`,
  });
  tls = `127.0.0.1:${server.ports[0]}`;
  await server.ask('www.example.com');
  await server.avocet(['query', `@tls://${tls}`, 'www.example.com', '+insecure']);
  await server.avocet(['query', `@tls://${tls}`, 'www.example.com', '+insecure']);
  plain = await Server.start({ config: '' });
});
after(async () => {
  await close();
  await server?.stop();
  await plain?.stop();
});

async function visit(at, address, work, user = 'viewer') {
  const visitor = await Visitor.arrive(at);
  try {
    await visitor.logIn(user, address);
    await visitor.settle();
    await work(visitor.page);
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

test('transports and certificates look right', async () => {
  await checkLooks(server, 'listeners', '/resolver/listeners', (page) => page.getByText('Expired', { exact: true }).waitFor());
});

test('a viewer sees shares of transports, expiry, and files that are not in use', async () => {
  await visit(server, '/resolver/listeners', async (page) => {
    const row = page.getByRole('row', { name: /^TLS/ });
    await row.getByText(`tls://${tls}`).waitFor();
    await row.getByText('67%').waitFor();
    await page.getByRole('row', { name: /^QUIC/ }).getByText('not served').waitFor();
    await page.getByText(/Handshakes of TLS, HTTPS: 2, 0%/).waitFor();
    const one = page.getByRole('listitem').filter({ hasText: 'dns.example' });
    await one.getByText(/[\d,]+ days left/).waitFor();
    await one.getByText('one.key').waitFor();
    await page.getByRole('listitem').filter({ hasText: 'old.example' }).getByText('Expired', { exact: true }).waitFor();
    await writeFile(path.join(server.directory, 'one.key'), 'no key\n');
    await one.getByText('The present files are not in use').waitFor();
  });
});

test('the overview has the shares of transports and the warning', async () => {
  await visit(server, '/', async (page) => {
    await page.getByText(/expired\.pem has expired: replace the file/).waitFor();
    const card = page.locator('section').filter({ hasText: 'Transports of clients' });
    await card.getByText('33%').waitFor();
    await card.getByRole('link', { name: 'TLS' }).click();
    await page.waitForURL('**/resolver/listeners');
    await page.getByRole('table', { name: 'Transports of clients' }).waitFor();
  });
});

test('without encryption the page says how to begin', async () => {
  await visit(plain, '/resolver/listeners', async (page) => {
    await page.getByText('No encrypted transport is served').waitFor();
    assert.equal(await page.getByRole('link', { name: 'Open the settings' }).count(), 0);
  });
  await visit(plain, '/resolver/listeners', async (page) => {
    await page.getByRole('link', { name: 'Open the settings' }).click();
    await page.waitForURL('**/settings/configuration/certificate');
  }, 'admin');
});
