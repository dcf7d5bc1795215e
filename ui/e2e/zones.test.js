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
name = "edit.example"
file = "edit.zone"
sign = true
allow-transfer = ["127.0.0.0/8"]

[[zone]]
name = "copy.example"
primaries = ["127.0.0.1:9"]

[[zone]]
name = "split.example"
file = "inside.zone"
view = ["10.0.0.0/8", "default"]

[[zone]]
name = "split.example"
file = "outside.zone"
`,
    files: { 'ads.txt': 'ads.example\n', 'trackers.txt': 'track.example\n', 'corp.zone': ZONE, 'edit.zone': `; by hand\n$ORIGIN edit.example.\n${SOA.replaceAll('corp', 'edit')}ns 300 IN A 192.0.2.53\n$GENERATE 1-2 g$ A 192.0.2.$\n`, 'inside.zone': `${SOA.replaceAll('corp', 'split')}ns 300 IN A 10.0.0.53\n`, 'outside.zone': `${SOA.replaceAll('corp', 'split')}ns 300 IN A 192.0.2.53\n`, 'broken.zone': `$ORIGIN broken.example.\n${SOA}` },
  });
  directory = server.directory;
  await writeFile(path.join(directory, 'broken.zone'), 'no zone at all\n');
  await server.avocet(['zone', 'reload']).catch(() => {});
});
after(async () => {
  await close();
  await server?.stop();
});

const visit = (address, work, user = 'operator') => Visitor.visit(server, { user, address }, work);

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

/** Fills the form of records and shows the difference. */
async function fill(page, { name, type, data }) {
  const form = page.getByRole('dialog');
  if (name) await form.getByLabel('Name', { exact: true }).fill(name);
  if (type) await form.getByLabel('Type', { exact: true }).fill(type);
  await form.getByLabel('Data').fill(data);
  await form.getByRole('button', { name: 'Show the difference' }).click();
  return form;
}

test('an operator adds, changes and removes records after their difference', async () => {
  await visit('/zones/edit.example', async (page) => {
    const table = page.getByRole('table', { name: 'Records' });
    await table.getByText('192.0.2.53').waitFor();
    assert.equal(await table.getByText('RRSIG').count(), 0);
    await page.getByRole('button', { name: 'Add records' }).click();
    let form = await fill(page, { name: 'www', type: 'A', data: '192.0.2' });
    await form.getByText(/www\.edit\.example\. A 192\.0\.2: /).waitFor();
    form = await fill(page, { data: '192.0.2.7\n192.0.2.8' });
    await form.getByText('+www.edit.example. 300 A 192.0.2.8').waitFor();
    await form.getByText(/Comments in .*edit\.zone/).waitFor();
    assert.equal(await table.getByText('192.0.2.7').count(), 0);
    await form.getByRole('button', { name: 'Publish' }).click();
    await page.getByText(/edit\.example now has the serial \d+\./).waitFor();
    await table.getByText('192.0.2.8').waitFor();
    await page.getByRole('button', { name: 'Change www A' }).click();
    form = await fill(page, { data: '192.0.2.9' });
    await form.getByText('-www.edit.example. 300 A 192.0.2.7').waitFor();
    await form.getByRole('button', { name: 'Publish' }).click();
    await table.getByText('192.0.2.9').waitFor();
    await page.getByRole('button', { name: 'Add records' }).click();
    form = await fill(page, { name: '@', type: 'TXT', data: 'v=spf1 "all"; -all' });
    await form.getByRole('button', { name: 'Publish' }).click();
    await table.getByText('"v=spf1 \\"all\\"; -all"').waitFor();
    await page.getByRole('button', { name: 'Change www A' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove these records' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click();
    await table.getByText('192.0.2.9').waitFor({ state: 'detached' });
    const history = page.locator('details');
    await page.getByText('1 removed, 0 added').waitFor();
    assert.equal(await history.count(), 4);
    await history.first().click();
    await history.first().getByText('-www.edit.example. 300 A 192.0.2.9').waitFor();
    const keys = page.getByRole('list', { name: 'Keys' });
    await keys.getByText('CSK').waitFor();
    await keys.getByText(/published|waits for its DS record/).first().waitFor();
    await page.getByRole('switch', { name: 'With signatures' }).click();
    await table.getByText('RRSIG').first().waitFor();
  });
  await checkLooks(server, 'zone-signed', '/zones/edit.example', (page) => page.getByRole('list', { name: 'Keys' }).waitFor());
});

test('a change that came between is shown, and nothing is overwritten', async () => {
  await visit('/zones/edit.example', async (page) => {
    const table = page.getByRole('table', { name: 'Records' });
    await table.getByText('192.0.2.53').waitFor();
    await page.getByRole('button', { name: 'Change ns A' }).click();
    const form = await fill(page, { data: '192.0.2.54' });
    await form.getByText('+ns.edit.example. 300 A 192.0.2.54').waitFor();
    await server.avocet(['zone', 'set', 'edit.example', 'ns', 'A', '192.0.2.55']);
    await form.getByRole('button', { name: 'Publish' }).click();
    await form.getByText('The zone has changed meanwhile').waitFor();
    await form.getByRole('button', { name: 'Compare with the present version' }).click();
    await form.getByText('-ns.edit.example. 300 A 192.0.2.55').waitFor();
    await form.getByRole('button', { name: 'Publish' }).click();
    await table.getByText('192.0.2.54').waitFor();
  });
});

test('who may not change records reads why', async () => {
  await visit('/zones/edit.example', async (page) => {
    await page.getByText('this needs the scope zones:write').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Add records' }).isDisabled());
    assert.equal(await page.getByRole('button', { name: /^Change / }).count(), 0);
  }, 'viewer');
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

test('zones of one name differ by their views', async () => {
  await visit('/zones', async (page) => {
    await page.getByRole('link', { name: 'split.example', exact: true }).click();
    await page.getByText('192.0.2.53').waitFor();
    assert.equal(await page.getByText('Seen by').count(), 0);
    await page.getByRole('link', { name: 'All zones' }).click();
    await page.getByRole('link', { name: 'split.example · 10.0.0.0/8' }).click();
    await page.getByRole('heading', { name: 'split.example · 10.0.0.0/8', level: 1 }).waitFor();
    await page.getByText('10.0.0.0/8, default').waitFor();
    await page.getByText('10.0.0.53').waitFor();
    await page.reload();
    await page.getByText('10.0.0.53').waitFor();
    await page.getByRole('button', { name: 'Read again' }).click();
    await page.getByText('split.example · 10.0.0.0/8 was read again.').waitFor();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Master file' }).click(),
    ]);
    assert.match(await readFile(await file.path(), 'utf8'), /10\.0\.0\.53/);
  });
});
