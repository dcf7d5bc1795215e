// The resolver: upstreams, cache, the DNSSEC doctor, trust.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { Upstream } from './dns.js';
import { EVIL, Server } from './server.js';

/** A key that no zone has. */
const DS = `DS 12345 13 2 ${'0123456789abcdef'.repeat(4)}`;

let forwards;
let recurses;
const zone = new Upstream();
before(async () => {
  forwards = await Server.start({
    script: (name) => (name.startsWith('broken.') ? { rcode: 2 } : undefined),
  });
  await forwards.live();
  const address = await zone.start();
  recurses = await Server.start({
    config: `
[resolver]
mode = "recurse"
query-private = true

[dnssec]
trust-anchors = ["broken.example. ${DS}"]

[[stub]]
zone = "broken.example"
servers = ["${address}"]
`,
  });
});
after(async () => {
  await close();
  zone.stop();
  await forwards?.stop();
  await recurses?.stop();
});

test('upstreams show their state, and failures with reasons', async () => {
  await forwards.ask('broken.example.net');
  const visitor = await Visitor.arrive(forwards);
  const { page } = visitor;
  await visitor.logIn('viewer', '/resolver');
  await visitor.settle();
  await page.getByText('in use').waitFor();
  await page.getByText('SERVFAIL', { exact: false }).first().waitFor();
  // A history begins while the page is open.
  await forwards.ask('fresh.example.org');
  await page.waitForResponse(/\/metrics/);
  await forwards.ask('fresher.example.org');
  await page.waitForResponse(/\/metrics/);
  await page.waitForResponse(/\/metrics/);
  await page.getByText('Round-trip time since this page was opened').waitFor();
  visitor.check();
  await visitor.leave();
});

test('the cache shows a name with markup as text, and forgets it', async () => {
  const visitor = await Visitor.arrive(forwards);
  const { page } = visitor;
  await forwards.ask(EVIL);
  await visitor.logIn('operator', '/resolver/cache');
  await visitor.settle();
  await page.getByRole('searchbox').fill(EVIL);
  await page.getByRole('button', { name: 'Look up' }).click();
  await page.getByRole('cell', { name: '192.0.2.1' }).waitFor();
  assert.match(page.url(), /name=/);
  await visitor.checkInjection();
  await visitor.checkAccess();
  await visitor.picture('resolver-lookup');
  await page.getByRole('button', { name: 'Flush the name' }).click();
  await page.getByText(/removed from the caches/).waitFor();
  await page.getByText('The cache has nothing for this name').waitFor();
  visitor.check();
  await visitor.leave();
});

test('a viewer may look into the cache, and not flush', async () => {
  const visitor = await Visitor.arrive(forwards);
  const { page } = visitor;
  await visitor.logIn('viewer', '/resolver/cache?name=example.com');
  await page.getByRole('heading', { name: 'example.com' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /Flush/ }).count(), 0);
  visitor.check();
  await visitor.leave();
});

test('the doctor finds the broken link, suspends validation, and undoes that', async () => {
  const visitor = await Visitor.arrive(recurses);
  const { page } = visitor;
  assert.equal(await recurses.ask('www.broken.example'), 2);
  await visitor.logIn('operator', '/resolver/doctor');
  await visitor.settle();
  await page.getByRole('searchbox').fill('www.broken.example');
  await page.getByRole('button', { name: 'Examine' }).click();
  await page.getByText('The chain breaks at broken.example').waitFor();
  await page.getByText(/vouches for the key 12345/).waitFor();
  await page.getByText('no DNSKEY record matches').first().waitFor();
  await visitor.checkAccess();
  await visitor.picture('resolver-doctor');
  await page.getByText('1 hour', { exact: true }).click();
  await page.getByRole('button', { name: 'Suspend validation for broken.example' }).click();
  await page.getByText('Validation is suspended for broken.example.').waitFor();
  await page.getByText('The name resolves without protection').waitFor();
  assert.match(await recurses.avocet(['nta', 'list']), /broken\.example/);
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('The chain breaks at broken.example').waitFor();
  assert.doesNotMatch(await recurses.avocet(['nta', 'list']), /broken\.example/);
  visitor.check();
  await visitor.leave();
});

test('a viewer sees the diagnosis without the button', async () => {
  const visitor = await Visitor.arrive(recurses, { theme: 'dark' });
  const { page } = visitor;
  await recurses.avocet(['cache', 'flush', 'www.broken.example']);
  await visitor.logIn('viewer', '/resolver/doctor?name=www.broken.example&type=A');
  await page.getByText('The chain breaks at broken.example').waitFor();
  assert.equal(await page.getByRole('button', { name: /Suspend/ }).count(), 0);
  await visitor.picture('resolver-doctor-dark');
  visitor.check();
  await visitor.leave();
});

test('anchors are shown; a negative one is added and removed', async () => {
  const visitor = await Visitor.arrive(recurses);
  const { page } = visitor;
  await visitor.logIn('operator', '/resolver/trust');
  await visitor.settle();
  await page.getByText('key 12345').waitFor();
  await page.getByRole('textbox', { name: 'Name' }).fill('other.example');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('Validation is suspended for other.example.').waitFor();
  assert.match(await recurses.avocet(['nta', 'list']), /other\.example/);
  await page.getByRole('button', { name: 'Validate other.example again' }).click();
  await page.getByText('Names in other.example are validated again.').waitFor();
  assert.doesNotMatch(await recurses.avocet(['nta', 'list']), /other\.example/);
  visitor.check();
  await visitor.leave();
});

test('the resolver looks right', async () => {
  await checkLooks(forwards, 'resolver', '/resolver');
  await checkLooks(forwards, 'resolver-cache', '/resolver/cache?name=example.com');
  await checkLooks(recurses, 'resolver-doctor', '/resolver/doctor?name=www.broken.example&type=A', (page) =>
    page.getByText('The chain breaks at').waitFor(),
  );
  await checkLooks(recurses, 'resolver-trust', '/resolver/trust');
});
