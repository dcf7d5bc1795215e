// How devices are connected: values to copy, the profile, the code, words of devices.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { checkLooks, close, PAGE_LOAD, Visitor } from './browser.js';
import { Server } from './server.js';

const CERTIFICATES = new URL('../../crates/cli/tests/operation/certificates/', import.meta.url);
const WORD = 'ana-7f3k9x';

let server;
let https;
let plain;
before(async () => {
  const files = {};
  for (const name of ['one.pem', 'one.key']) {
    files[name] = await readFile(new URL(name, CERTIFICATES), 'utf8');
  }
  server = await Server.start({
    files,
    ports: 3,
    config: ([tls, doh, quic]) => `
[[listener]]
name = "encrypted"
listen = ["tls://127.0.0.1:${tls}", "https://127.0.0.1:${doh}", "quic://127.0.0.1:${quic}"]

[[certificate]]
names = ["dns.example", "*.dns.example"]
cert = "one.pem"
key = "one.key"

[[client]]
name = "phone of Ana"
ids = ["id:${WORD}"]`,
  });
  https = server.ports[1];
  plain = await Server.start({ config: '' });
});
after(async () => {
  await close();
  await server?.stop();
  await plain?.stop();
});

async function visit(at, address, work, { user = 'viewer', ...options } = {}) {
  const visitor = await Visitor.arrive(at, options);
  try {
    await visitor.logIn(user, address);
    await visitor.settle();
    await work(visitor.page, visitor);
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

test('each part looks right', async () => {
  await checkLooks(server, 'connect-phone', '/connect', (page) =>
    page.getByRole('heading', { name: 'iPhone, iPad, Mac, Apple TV' }).waitFor(),
  );
  const parts = {
    Computer: 'Windows 11',
    Browser: 'Secure DNS of browsers',
    Router: 'All devices by DHCP',
    Programs: 'DNS over QUIC',
  };
  const look = async (page, visitor) => {
    for (const [part, heading] of Object.entries(parts)) {
      await page.getByRole('link', { name: part }).click();
      await page.getByRole('heading', { name: heading }).waitFor();
      await visitor.picture(`connect-${part.toLowerCase()}`);
      await visitor.checkWidth();
      await visitor.checkAccess();
    }
  };
  await visit(server, '/connect', look, { size: 'phone', theme: 'dark' });
});

test('a viewer gets the profile, the code and the stamps of any device', async () => {
  await visit(server, '/', async (page, visitor) => {
    await visitor.forget();
    await visitor.open('Connect');
    const code = page.getByRole('img', { name: 'QR code of the DNS stamp' });
    await code.waitFor();
    if (!process.env.UI_DIST) assert.ok(visitor.octets < PAGE_LOAD, `${visitor.octets} octets`);
    assert.ok(await code.evaluate((image) => image.decode().then(() => image.naturalWidth > 0)));
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download the profile' }).click();
    const file = await download;
    assert.equal(file.suggestedFilename(), 'dns.mobileconfig');
    const profile = await readFile(await file.path(), 'utf8');
    assert.ok(profile.includes(`https://dns.example:${https}/dns-query{?dns}`), profile);
    await page.getByRole('link', { name: 'Programs' }).click();
    await page.waitForURL('**/connect/programs**');
    const stamp = page.getByRole('group', { name: 'DNS stamp' });
    assert.equal(await stamp.count(), 3);
    await stamp.first().getByText(/^sdns:\/\//).waitFor();
    await page.getByRole('link', { name: 'Browser' }).click();
    await page.getByText(`https://dns.example:${https}/dns-query{?dns}`).waitFor();
  });
});

test('a device with a word has its own values', async () => {
  await visit(
    server,
    '/connect/browser',
    async (page) => {
      await page.getByLabel('Device').selectOption(`phone of Ana (${WORD})`);
      await page.waitForURL(`**id=${WORD}**`);
      const url = `https://dns.example:${https}/dns-query/${WORD}{?dns}`;
      await page.getByText(url).waitFor();
      await page.reload();
      await page.getByText(url).waitFor();
      await page.getByRole('link', { name: 'Programs' }).click();
      await page.getByText(`${WORD}.dns.example:`).first().waitFor();
    },
    { user: 'admin' },
  );
  await visit(server, '/connect/browser', async (page) => {
    const word = page.getByRole('textbox', { name: 'Word of the device' });
    await word.fill('two words');
    await page.getByText(/"two words" is not a word/).waitFor();
    await word.fill('tablet');
    await page.getByText('/dns-query/tablet{?dns}').waitFor();
  });
});

test('values are copied by keyboard', async () => {
  await visit(server, '/connect/browser', async (page, visitor) => {
    await visitor.context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const group = page.getByRole('group', { name: 'URL of the provider' });
    await group.getByRole('button', { name: 'Copy' }).focus();
    await page.keyboard.press('Enter');
    await group.getByRole('button', { name: 'Copied' }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, `https://dns.example:${https}/dns-query{?dns}`);
  });
});

test('without encryption the page has the address for routers, and says how to begin', async () => {
  await visit(
    plain,
    '/connect/router',
    async (page, visitor) => {
      await page.getByRole('group', { name: 'Address of this server' }).getByText('127.0.0.1').waitFor();
      await visitor.picture('connect-plain');
      await visitor.checkAccess();
      await page.getByText(/The server listens on port \d+/).waitFor();
      await page.getByRole('link', { name: 'Obtain a certificate' }).click();
      await page.waitForURL('**/settings/configuration/acme');
    },
    { user: 'admin' },
  );
});

test('the page is in German, too, on a phone', async () => {
  await visit(
    server,
    '/connect',
    async (page, visitor) => {
      await page.getByRole('heading', { name: 'Verbinden' }).waitFor();
      await page.getByRole('link', { name: 'Profil laden' }).waitFor();
      await visitor.picture('connect-german');
      await visitor.checkWidth();
    },
    { size: 'phone', language: 'de' },
  );
});
