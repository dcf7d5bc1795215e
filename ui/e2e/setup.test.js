// The first run, from the set-up link to the first query.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { readFile } from 'node:fs/promises';
import { close, Visitor } from './browser.js';
import { PASSWORD, Server } from './server.js';

let server;
before(async () => {
  server = await Server.start({ config: '', users: false });
});
after(async () => {
  await close();
  await server?.stop();
});

test('the link adds the first user, and leads to a server that a device uses', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await page.goto(server.setUpPath());
  await page.getByRole('heading', { name: 'Welcome to Avocet' }).waitFor();
  await visitor.checkAccess();
  await visitor.picture('setup-password');
  await page.getByLabel('Name').fill('ada');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create the user' }).click();

  await page.getByRole('heading', { name: 'Where answers come from' }).waitFor();
  assert.match(await server.avocet(['user', 'list']), /ada.*admin/);
  assert.doesNotMatch(page.url(), /#./);
  await page.getByText('Forward to other servers').click();
  const upstream = /upstreams = \["([^"]+)"\]/.exec(await readFile(server.file, 'utf8'))[1];
  await page.getByLabel('Servers to forward to').fill(upstream);
  await page.getByRole('button', { name: 'Test both' }).click();
  await page.getByText(/^works, /).first().waitFor({ timeout: 40_000 });
  await visitor.checkAccess();
  await visitor.picture('setup-resolving');
  await page.getByText('Forward to other servers').click();
  await page.getByRole('button', { name: 'Continue', exact: true }).click();

  await page.getByRole('heading', { name: 'What to block' }).waitFor();
  assert.match(await readFile(server.file, 'utf8'), /mode = "forward"/);
  assert.equal(await server.ask('example.com'), 0);
  await visitor.checkAccess();
  await visitor.picture('setup-lists');
  await page.getByRole('checkbox', { name: /Advertisements/ }).uncheck();
  await page.getByRole('checkbox', { name: /Malware/ }).uncheck();
  await page.getByRole('checkbox', { name: /adults/ }).check();
  await page.getByRole('button', { name: 'Continue', exact: true }).click();

  await page.getByRole('heading', { name: 'Point your devices here' }).waitFor();
  assert.match(await readFile(server.file, 'utf8'), /oisd-nsfw/);
  await page.getByText('Waiting for a query').waitFor();
  await server.ask('example.org', { from: '127.0.0.23' });
  await page.getByText('127.0.0.23').waitFor();
  await page.getByText('The server answers this machine only').waitFor();
  await visitor.checkAccess();
  await visitor.checkWidth();
  await visitor.picture('setup-devices');
  await page.getByRole('link', { name: 'Go to the overview' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  visitor.check();
  await visitor.leave();
});

test('a link that was used says so', async () => {
  const visitor = await Visitor.arrive(server, { size: 'phone', theme: 'dark' });
  const { page } = visitor;
  await page.goto(server.setUpPath());
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create the user' }).click();
  await page.getByRole('alert').waitFor();
  await visitor.checkAccess();
  await visitor.picture('setup-phone');
  visitor.check();
  await visitor.leave();
});
