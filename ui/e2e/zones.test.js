// Hosted zones: their state, records by page, reading again, and the master file.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { checkLooks, close, PAGE_LOAD, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const SOA = '@ 300 IN SOA ns.corp.example. admin.corp.example. 7 3600 600 86400 60\n@ 300 IN NS ns\n';
const ZONE = `$ORIGIN corp.example.
${SOA}ns 300 IN A 192.0.2.53
text 300 IN TXT "<img src=x onerror=alert(1)>"
${Array.from({ length: 250 }, (_, at) => `host${at} 300 IN A 192.0.2.${at % 250}`).join('\n')}
`;

let server;
let directory;
before(async () => {
  server = await Server.start({
    config: `${HOUSEHOLD}
[[zone]]
name = "corp.example"
file = "corp.zone"

[[zone]]
name = "broken.example"
file = "broken.zone"

[[zone]]
name = "copy.example"
primaries = ["127.0.0.1:9"]
`,
    files: { 'ads.txt': 'ads.example\n', 'trackers.txt': 'track.example\n', 'corp.zone': ZONE, 'broken.zone': `$ORIGIN broken.example.\n${SOA}` },
  });
  directory = server.directory;
  await writeFile(path.join(directory, 'broken.zone'), 'no zone at all\n');
  await server.avocet(['zone', 'reload']).catch(() => {});
});
after(async () => {
  await close();
  await server?.stop();
});

async function visit(address, work, user = 'operator') {
  const visitor = await Visitor.arrive(server);
  try {
    await visitor.logIn(user, address);
    await visitor.settle();
    await work(visitor.page, visitor);
    await visitor.checkInjection();
    visitor.check();
  } finally {
    await visitor.leave();
  }
}

test('zones and a zone look right', async () => {
  await checkLooks(server, 'zones', '/zones', (page) => page.getByRole('link', { name: 'corp.example' }).waitFor());
  await checkLooks(server, 'zone', '/zones/corp.example', (page) => page.getByText('host0', { exact: true }).waitFor());
  await checkLooks(server, 'zone-copy', '/zones/copy.example', (page) => page.getByText('127.0.0.1:9').first().waitFor());
});

test('a viewer sees states and records page by page, and may not read again', async () => {
  await visit('/', async (page, visitor) => {
    await visitor.forget();
    await visitor.open('Zones');
    if (!process.env.UI_DIST) assert.ok(visitor.octets < PAGE_LOAD, `${visitor.octets} octets`);
    await page.getByRole('row', { name: /broken\.example/ }).getByText(/Old version|Not served/).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Read all again' }).count(), 0);
    await page.getByRole('link', { name: 'corp.example' }).click();
    const table = page.getByRole('table', { name: 'Records' });
    await table.getByText('SOA', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Further' }).click();
    await page.getByText('Page 2').waitFor();
    await table.getByText('SOA', { exact: true }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Back' }).click();
    await table.getByText('SOA', { exact: true }).waitFor();
    await page.getByRole('searchbox').fill('host42');
    await table.getByText('192.0.2.42').waitFor();
    assert.equal(await table.getByRole('row').count(), 2);
    await page.getByRole('searchbox').fill('nothing-here');
    await page.getByText('No record has this name').waitFor();
  }, 'viewer');
});

test('an operator reads a changed file again, and gets the master file', async () => {
  await visit('/zones/corp.example', async (page) => {
    await writeFile(path.join(directory, 'corp.zone'), `${ZONE.replace(' 7 ', ' 8 ')}fresh 300 IN A 192.0.2.99\n`);
    await page.getByRole('button', { name: 'Read again' }).click();
    await page.getByText('corp.example was read again.').waitFor();
    await page.getByRole('searchbox').fill('fresh');
    await page.getByText('192.0.2.99').waitFor();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Master file' }).click(),
    ]);
    assert.equal(file.suggestedFilename(), 'corp.example.zone');
    const text = await readFile(await file.path(), 'utf8');
    assert.match(text, /^corp\.example\.\s+300\s+(IN\s+)?SOA\s.* 8 /m);
    assert.match(text, /host249\./);
    assert.match(text, /onerror/);
  });
});

test('the search over everything finds a zone', async () => {
  await visit('/', async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('copy.ex');
    await page.getByRole('option', { name: 'copy.example zone' }).waitFor();
    await page.getByRole('option', { name: 'copy.example zone' }).click();
    await page.waitForURL('**/zones/copy.example');
    await page.getByRole('heading', { name: 'copy.example', level: 1 }).waitFor();
  }, 'viewer');
});
