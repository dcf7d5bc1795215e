// The overview.

import { after, before, test } from 'node:test';
import { checkLooks, close } from './browser.js';
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

test('the overview looks right', async () => {
  await checkLooks(server, 'overview', '/');
});
