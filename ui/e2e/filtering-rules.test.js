// Filtering, its rules and the trial of a query.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks } from './browser.js';
import { ADULT, KID, NOERROR, NXDOMAIN, Policy } from './policy.js';

let policy;
before(async () => {
  policy = await Policy.start();
});
after(() => policy?.stop());

test('a rule is written in the form, shown as text, and in force', async () => {
  await policy.answers('video.example', KID, NOERROR);
  await policy.visit('/filtering/rules?new', async (page) => {
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('no video');
    await page.getByRole('button', { name: 'Add a condition' }).click();
    await page.getByRole('textbox', { name: 'Values' }).fill('video.example');
    await page.getByRole('button', { name: 'Add a condition' }).click();
    await page.getByRole('combobox', { name: 'Condition', exact: true }).last().selectOption('client.group');
    await page.getByRole('button', { name: 'kids', pressed: true }).waitFor();
    const text = page.getByRole('textbox', { name: 'Text', exact: true });
    const shown = await text.inputValue();
    assert.equal(shown, 'qname.under("video.example") && client.group("kids")');
    await page.getByText('The server accepts this rule.').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The rule no video is in force.').waitFor();
    await policy.answers('www.video.example', KID, NXDOMAIN);
    await policy.answers('www.video.example', ADULT, NOERROR);
    const row = page.getByRole('listitem').filter({ hasText: 'no video' });
    await row.getByRole('switch').click();
    await page.getByText('The rule no video is off.').waitFor();
    await policy.answers('www.video.example', KID, NOERROR);
  });
});

test('an error of a condition has its column, and the form follows the text', async () => {
  await policy.visit('/filtering/rules/no-games', async (page) => {
    const text = page.getByRole('textbox', { name: 'Text', exact: true });
    await text.fill('client.group("kids") && qname.below("games.example")');
    await page.getByText('Column 31:').waitFor();
    await page.getByRole('button', { name: 'Go to the error' }).click();
    const place = await text.evaluate((area) => area.selectionStart);
    assert.equal(place, 30);
    assert.ok(await page.getByRole('button', { name: 'Save' }).isDisabled());
    await text.fill('qname.under("a.example") || (qtype == "AAAA" && !client.group("kids"))');
    await page.getByRole('button', { name: 'Save', disabled: false }).waitFor();
    const values = await page.locator('input[aria-label=Values]').evaluateAll((all) =>
      all.map((one) => one.value),
    );
    assert.deepEqual(values, ['a.example', 'AAAA']);
  });
});

test('rules change their order', async () => {
  await policy.visit('/filtering/rules', async (page) => {
    const names = () => page.locator('ol li a').allTextContents();
    const before = await names();
    await page.getByRole('button', { name: `Move down: ${before[0]}` }).click();
    await page.getByText('has another place').waitFor();
    const after = await names();
    assert.deepEqual(after.slice(0, 2), [before[1], before[0]]);
  });
});

test('"Try it" gives the verdict with its reasons, at an address', async () => {
  await policy.visit('/filtering/try?name=games.example&client=tablet', async (page) => {
    await page.getByText('by rule no-games').waitFor();
    await page.getByRole('textbox', { name: 'Name' }).fill('ads.example');
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('0.0.0.0 ads.example').waitFor();
    assert.match(page.url(), /name=ads\.example&client=tablet/);
  }, 'viewer');
});

test('the parts about rules look right', async () => {
  await checkLooks(policy.server, 'filtering-rules', '/filtering/rules');
  await checkLooks(policy.server, 'filtering-rule', '/filtering/rules/no-games');
  const trial = '/filtering/try?name=ads.example&client=tablet';
  await checkLooks(policy.server, 'filtering-try', trial, async (page) => {
    await page.getByText('by list').waitFor();
  });
});
