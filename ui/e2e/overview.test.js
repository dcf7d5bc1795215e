// The overview.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { Server } from './server.js';

/** Milliseconds of processor time of the server for a refresh; a debug build needs more. */
const REFRESH = process.env.AVOCET?.includes('release') ? 20 : 200;

let server;
before(async () => {
  server = await Server.start();
  await server.live();
});
after(async () => {
  await close();
  await server?.stop();
});

test('the overview looks right', async () => {
  await checkLooks(server, 'overview', '/', (page) => page.getByText('Top blocked names').waitFor());
});

test('numbers and rankings are those of the queries, and lead to them', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/');
  // The latest queries, which appear before the rankings, have links with the same text.
  const link = page.locator('a[href*="?name=banner.ads.example.&kind=blocked"]');
  await link.click();
  await page.waitForURL('**/queries?name=banner.ads.example.&kind=blocked');
  await page.getByRole('gridcell', { name: 'banner.ads.example' }).first().waitFor();
  visitor.check();
  await visitor.leave();
});

test('each time has an address, and live counts as queries arrive', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/');
  for (const [name, range] of [['Day', 'day'], ['Week', 'week'], ['Live', 'live']]) {
    await page.getByText(name, { exact: true }).click();
    await page.waitForURL(`**/?range=${range}`);
  }
  await page.getByText('Queries per second').waitFor();
  await server.live();
  await visitor.checkAccess();
  await visitor.picture('overview-live');
  visitor.check();
  await visitor.leave();
});

test('dragging over the chart chooses a time', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/');
  const box = await page.locator('.u-over').first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=\d+&to=\d+/);
  await visitor.checkTimes();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.waitForURL((url) => url.search === '');
  visitor.check();
  await visitor.leave();
});

test('a pause for everybody takes two clicks and has an undo; a viewer has none', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('operator', '/');
  await page.getByRole('banner').getByRole('button', { name: 'Filtering' }).click();
  await page.getByRole('menuitem', { name: /15.min/ }).click();
  await page.getByText('Filtering is paused for').waitFor();
  await page.getByText(/Paused, .* left/).waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('Filtering is on', { exact: true }).waitFor();
  visitor.check();
  await visitor.leave();
  const viewer = await Visitor.arrive(server);
  await viewer.logIn('viewer', '/');
  await viewer.page.getByText('Filtering is on', { exact: true }).waitFor();
  assert.equal(await viewer.page.getByRole('banner').getByRole('button').filter({ hasText: 'Filtering' }).count(), 0);
  await viewer.leave();
});

test('a refresh takes little time of the server', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/');
  await page.getByText('Top blocked names').waitFor();
  const now = Math.floor(Date.now() / 1000);
  const paths = [
    'status',
    `series?from=${now - 3600}&to=${now}&step=60`,
    `statistics?from=${now - 3600}&to=${now}&limit=8`,
    'queries?kind=blocked&limit=6',
  ];
  const before = await server.cpuMillis();
  const times = 20;
  for (let left = times; left > 0; left -= 1) {
    for (const path of paths) await page.request.get(`/api/v1/${path}`);
  }
  const each = ((await server.cpuMillis()) - before) / times;
  assert.ok(each <= REFRESH, `${each} ms`);
  await visitor.leave();
});

test('without a query log, the page says so, and an admin turns it on', async () => {
  const quiet = await Server.start({ config: '' , log: false });
  try {
    const visitor = await Visitor.arrive(quiet);
    const { page } = visitor;
    await visitor.logIn('admin', '/');
    await page.getByText('The query log is off').waitFor();
    await visitor.checkAccess();
    await page.getByRole('button', { name: 'Turn on the query log' }).click();
    await page.getByText('Queries by outcome').waitFor();
    visitor.check();
    await visitor.leave();
  } finally {
    await quiet.stop();
  }
});
