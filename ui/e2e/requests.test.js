// Requests for access: what a client asks for on the block page is answered in the bell.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { close, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const KID = '127.0.0.12';
/** A blocked name whose address every browser knows. */
const SHOP = 'shop.localhost';
const REFUSED_TEXT = '<img src=x onerror=alert(1)>';

let server;
let page;
before(async () => {
  server = await Server.start({
    ports: 1,
    config: ([port]) => `${HOUSEHOLD}
[[rule]]
name = "no-shops"
when = 'qname.under("${SHOP}")'
action = "block"

[policy]
block-answer = "addresses"
block-page = ["127.0.0.1:${port}"]
block-addresses = ["127.0.0.1"]
`,
  });
  [page] = server.ports;
  await server.addUser('parent', 'operator', ['--group', 'kids']);
  await server.addUser('other', 'operator', ['--group', 'default']);
});
after(async () => {
  await close();
  await server?.stop();
});

/** Sends the form of the block page, as the browser of a client does. */
function ask(name, text, from = KID) {
  const body = new URLSearchParams({ text }).toString();
  return new Promise((done, fail) => {
    const request = http.request(
      {
        host: '127.0.0.1',
        port: page,
        localAddress: from,
        method: 'POST',
        path: '/.avocet/request-access',
        headers: {
          host: name,
          origin: `http://${name}`,
          'content-type': 'application/x-www-form-urlencoded',
          'content-length': Buffer.byteLength(body),
        },
      },
      (response) => done(response.resume().statusCode),
    );
    request.on('error', fail);
    request.end(body);
  });
}

/** Returns whether a name is granted. */
async function isAllowed(name) {
  const grants = await server.avocet(['policy', 'status']);
  return grants.includes(name);
}

const visit = (user, work, look) => Visitor.visit(server, { user, ...look }, work);

const bell = (at, count) => at.getByRole('button', { name: new RegExp(`^(Notices|Hinweise|Meldungen), ${count}$`) });

test('a request is granted from the bell, and the undo ends the grant', async () => {
  assert.equal(await ask('ads.example', 'for school'), 200);
  assert.equal(await ask('track.example', REFUSED_TEXT), 200);
  await visit('operator', async (at, visitor) => {
    await bell(at, 2).click();
    await at.getByText('for school').waitFor();
    await at.getByText('asked by tablet').first().waitFor();
    await at.getByText(REFUSED_TEXT).waitFor();
    await visitor.checkAccess();
    await visitor.picture('requests-light');
    await at.getByRole('button', { name: 'Allow ads.example for 45' }).click();
    await at.getByText('ads.example is allowed for tablet').waitFor();
    await bell(at, 1).waitFor();
    assert.ok(await isAllowed('ads.example'));
    await at.getByRole('button', { name: 'Undo' }).click();
    for (let left = 50; left > 0 && (await isAllowed('ads.example')); left -= 1);
    assert.ok(!(await isAllowed('ads.example')));
    // A click beside the notices has closed them.
    await bell(at, 1).click();
    await at.getByRole('button', { name: 'Refuse track.example' }).click();
    await at.getByText('track.example stays blocked for tablet.').waitFor();
    await bell(at, 0).waitFor();
  });
});

test('limits of groups decide who sees it, and a viewer answers nothing', async () => {
  assert.equal(await ask('banner.ads.example', ''), 200);
  await visit('other', (at) => bell(at, 0).waitFor());
  await visit('viewer', async (at) => {
    await bell(at, 1).click();
    await at.getByText('banner.ads.example').waitFor();
    assert.equal(await at.getByRole('button', { name: /banner/ }).count(), 0);
  });
  await visit('parent', async (at) => {
    await bell(at, 1).click();
    await at.getByRole('button', { name: 'Allow banner.ads.example for 15' }).click();
    await at.getByText('banner.ads.example is allowed for tablet').waitFor();
  });
  assert.ok(await isAllowed('banner.ads.example'));
});

/** Visits the block page of a name. */
async function visitBlockPage(look, work) {
  const visitor = await Visitor.arrive({ ...server, url: `http://${SHOP}:${page}` }, look);
  try {
    await visitor.page.goto('/');
    await work(visitor.page, visitor);
    await visitor.checkAccess();
    await visitor.checkWidth();
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

test('a person reads the block page and asks for access there', async () => {
  await visitBlockPage({}, async (at, visitor) => {
    await at.getByRole('heading', { name: `${SHOP} is blocked` }).waitFor();
    await at.getByText('rule no-shops').waitFor();
    await visitor.picture('block-page-light');
  });
  await visitBlockPage({ size: 'phone', language: 'de', theme: 'dark' }, async (at, visitor) => {
    await at.getByRole('heading', { name: `${SHOP} ist gesperrt` }).waitFor();
    await visitor.checkAccess();
    await visitor.picture('block-page-phone-german');
    await at.getByLabel(/^Nachricht/).fill('für ein Geschenk');
    await at.getByRole('button', { name: 'Zugang erbitten' }).click();
    await at.getByText('Ihre Bitte wurde').waitFor();
  });
  await visit('operator', async (at) => {
    await bell(at, 1).click();
    await at.getByText('für ein Geschenk').waitFor();
    await at.getByRole('button', { name: `Refuse ${SHOP}` }).click();
    await bell(at, 0).waitFor();
  });
});

test('a phone shows it in German', async () => {
  assert.equal(await ask('metrics.example', 'bitte'), 200);
  await visit('operator', async (at, visitor) => {
    await at.getByRole('button', { name: /, 1$/ }).click();
    await at.getByText('Bitte von tablet').waitFor();
    await visitor.checkWidth();
    await visitor.checkAccess();
    await visitor.picture('requests-phone-german');
  }, { size: 'phone', language: 'de', theme: 'dark' });
});
