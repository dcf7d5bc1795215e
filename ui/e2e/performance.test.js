// Performance: what the server does and uses.

import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { Server } from './server.js';

let server;
before(async () => {
  server = await Server.start();
  await server.live();
});
after(async () => {
  await close();
  await server?.stop();
});

test('queries appear in the histograms and in the log', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/performance');
  await visitor.settle();
  await page.getByRole('table', { name: 'Answered at once' }).getByRole('row').first().waitFor();
  await page.getByRole('table', { name: /waiting for the network/ }).getByRole('row').first().waitFor();
  const logged = page.locator('section').filter({ hasText: 'Writer of the query log' });
  await logged.getByText('Queries logged').waitFor();
  const workers = page.getByRole('table', { name: 'Load of the workers' });
  await workers.getByRole('row', { name: /Worker 0/ }).getByText('%').waitFor();
  await page.getByText('Queue of the query log').waitFor();
  visitor.check();
  await visitor.leave();
});

test('the page of the performance looks right', async () => {
  await checkLooks(server, 'performance', '/performance');
});
