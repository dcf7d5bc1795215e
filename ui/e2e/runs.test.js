// Results of the load generator side by side: real ones, and files that are none.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { Server } from './server.js';

let server;
/** Contents of files by name. */
const files = {};

/** Runs the load generator, and keeps its result. */
function generate(name, more) {
  const file = path.join(server.directory, `${name}.json`);
  const target = `127.0.0.1:${server.dns.port}`;
  const shared = ['--zone-name', 'example.', '--population', '20', '--duration', '1s', '--quiet'];
  const args = ['load', target, ...shared, '--check', 'id', '--json', file, ...more];
  return new Promise((done, fail) =>
    // A run fails if the machine is too busy. Its result is there nevertheless.
    execFile(process.env.AVOCET ?? '../target/debug/avocet', args, () =>
      readFile(file, 'utf8').then((text) => done((files[`${name}.json`] = text)), fail),
    ),
  );
}

before(async () => {
  server = await Server.start();
  await generate('before', ['--rate', '500']);
  await generate('after', ['--rate', '500', '--transport', 'tcp']);
});
after(async () => {
  await close();
  await server?.stop();
});

const file = (name, text = files[name]) => ({
  name,
  mimeType: 'application/json',
  buffer: Buffer.from(text),
});
const open = (page, ...all) => page.locator('input[type=file]').setInputFiles(all);
const table = (page) => page.getByRole('table');

const visit = (work) => Visitor.visit(server, { user: 'viewer', address: '/performance/runs' }, work);

/** Returns a run with other values at some paths. */
function changed(name, values) {
  const run = JSON.parse(files[name]);
  for (const [place, value] of Object.entries(values)) {
    const names = place.split('.');
    const last = names.pop();
    names.reduce((at, one) => at[one], run)[last] = value;
  }
  return JSON.stringify(run);
}

test('runs are in columns, the first by time, with their differences, and stay in the browser', async () => {
  await visit(async (page) => {
    const sent = [];
    page.on('request', (request) => sent.push(request.method()));
    await open(page, file('after.json'), file('before.json'));
    const heads = table(page).getByRole('columnheader');
    await heads.nth(2).waitFor();
    assert.match(await heads.nth(1).textContent(), /before\.json/);
    assert.match(await heads.nth(2).textContent(), /after\.json/);
    const row = (name) => table(page).getByRole('row').filter({ hasText: name }).first();
    assert.match(await row('Transport').textContent(), /udp\s*tcp/);
    assert.match(await row('Pace').textContent(), /open loop, 500\/s/);
    const { answered } = JSON.parse(files['before.json']).outcome;
    assert.match(await row('Answered').textContent(), new RegExp(String(answered)));
    assert.match(await row('P99.9').textContent(), /[µm]s/);
    await page.getByText('They use different transports.').waitFor();
    assert.equal(await page.locator('svg[role=img] path').count(), 2);
    assert.ok(sent.every((method) => method === 'GET'), sent.join());
  });
});

test('differences beyond the limits are marked, and another run can be the first', async () => {
  await visit(async (page) => {
    const base = { 'pace.open_loop': true, 'latency.p50_ns': 1_000_000, started_unix_secs: 1 };
    const slower = { ...base, 'latency.p50_ns': 1_500_000, started_unix_secs: 2, 'outcome.wrong.total': 3 };
    await open(
      page,
      file('one.json', changed('before.json', base)),
      file('two <img src=x onerror=alert(1)>.json', changed('before.json', slower)),
    );
    const half = table(page).getByRole('row').filter({ hasText: 'P50' });
    await half.getByText('+50% worse').waitFor();
    await table(page).getByRole('row').filter({ hasText: 'Wrong' }).getByText('worse').waitFor();
    await page.getByRole('button', { name: /^Compare with this.*two/ }).click();
    await half.getByText('−33% better').waitFor();
    // The runs stay while another page is open.
    await page.getByRole('navigation').getByRole('link', { name: 'Queries' }).click();
    await page.goBack();
    await half.getByText('−33% better').waitFor();
    await page.getByRole('button', { name: /^Remove two/ }).click();
    await half.getByText('better').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Remove all' }).click();
    await page.getByText('No runs yet').waitFor();
  });
});

test('files that are no runs are refused with a reason, and the others are shown', async () => {
  await visit(async (page, visitor) => {
    await open(
      page,
      file('before.json'),
      file('copy.json', files['before.json']),
      file('cut.json', files['before.json'].slice(0, 900)),
      file('list.json', '[1, 2]'),
      file('null.json', '{"format": null}'),
      file('earlier.json', changed('before.json', { format: 'avocet-load/1' })),
      file('bare.json', changed('before.json', { 'latency.p99_ns': 'much' })),
      file('curve.json', changed('before.json', { 'latency.curve': [[2, 3]] })),
    );
    const notice = (name) => page.getByRole('alert').filter({ hasText: name });
    await notice('copy.json').getByText('same content').waitFor();
    await notice('cut.json').getByText('is not JSON').waitFor();
    await notice('list.json').getByText('not a result of avocet load').waitFor();
    await notice('null.json').getByText('not a result of avocet load').waitFor();
    await notice('earlier.json').getByText('Its format is avocet-load/1').waitFor();
    await notice('bare.json').getByText('The field latency.p99_ns').waitFor();
    await notice('curve.json').getByText('The field latency.curve').waitFor();
    await table(page).getByRole('columnheader', { name: /before\.json/ }).waitFor();
    await visitor.checkAccess();
    const many = Array.from({ length: 9 }, (_, at) =>
      file(`run${at}.json`, changed('before.json', { started_unix_secs: at })),
    );
    await open(page, ...many);
    await notice('run8.json').getByText('Eight runs').waitFor();
    assert.equal(await table(page).getByRole('columnheader').count(), 9);
  });
});

test('a file is dropped on the page', async () => {
  await visit(async (page) => {
    const dropped = await page.evaluateHandle((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], 'dropped.json'));
      return transfer;
    }, files['after.json']);
    await page.locator('#content').dispatchEvent('dragover', { dataTransfer: dropped });
    await page.getByText('Drop the files here').waitFor();
    await page.locator('#content').dispatchEvent('drop', { dataTransfer: dropped });
    await table(page).getByRole('columnheader', { name: /dropped\.json/ }).waitFor();
  });
});

test('runs look right', async () => {
  await checkLooks(server, 'runs-none', '/performance/runs');
  await checkLooks(server, 'runs', '/performance/runs', async (page) => {
    await open(page, file('before.json'), file('after.json'), file('other.json', '{}'));
    await table(page).waitFor();
  });
});
