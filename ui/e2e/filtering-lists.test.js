// Filtering, its lists and what each role sees: a change acts on the next query.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks } from './browser.js';
import { ADULT, KID, NOERROR, NXDOMAIN, Policy, undo } from './policy.js';

let policy;
before(async () => {
  policy = await Policy.start();
});
after(() => policy?.stop());

test('lists show how much of the log only they block', async () => {
  await policy.visit('/filtering', async (page) => {
    const row = page.getByRole('row').filter({ hasText: 'trackers' });
    await row.getByText('%').waitFor({ timeout: 15_000 });
    const { lists } = await page.request.get('/api/v1/lists').then((reply) => reply.json());
    const { share } = lists.find((one) => one.name === 'trackers');
    // Both lists have ads.example: of the names of trackers, only track.example is blocked alone.
    assert.ok(share.alone > 0 && share.alone < share.queries, JSON.stringify(share));
    assert.match(await row.textContent(), new RegExp(`\\b${share.alone} \\(`));
    await page.getByRole('link', { name: 'trackers' }).click();
    await page.locator('dialog').getByText('Only by it').waitFor();
  }, 'viewer');
});

test('a list is turned off for a group, and on again by the undo', async () => {
  await policy.answers('track.example', ADULT, NXDOMAIN);
  await policy.visit('/filtering', async (page) => {
    const row = page.getByRole('row').filter({ hasText: 'trackers' });
    await row.getByRole('button', { name: 'Devices without a group' }).click();
    await page.getByText('trackers is off for').waitFor();
    await policy.answers('track.example', ADULT, NOERROR);
    await policy.answers('track.example', KID, NXDOMAIN);
    await undo(page);
    await page.getByText('The change is undone.').waitFor();
    await policy.answers('track.example', ADULT, NXDOMAIN);
  });
});

test('a list is removed and comes back with its comments', async () => {
  const before = await policy.server.text();
  await policy.visit('/filtering/lists/trackers', async (page) => {
    await page.getByText('3').first().waitFor();
    await page.getByRole('button', { name: 'Remove the list' }).click();
    await page.getByText('The list trackers is removed.').waitFor();
    await policy.answers('track.example', ADULT, NOERROR);
    await undo(page);
    await policy.answers('track.example', ADULT, NXDOMAIN);
  });
  assert.equal(await policy.server.text(), before);
});

test('a list of the catalogue is added', async () => {
  await policy.visit('/filtering/catalogue', async (page) => {
    await page.getByRole('button', { name: 'Add: URLhaus' }).click();
    await page.getByText('The list urlhaus is added.').waitFor();
    await page.getByRole('button', { name: 'Close' }).first().click();
    await page.getByRole('link', { name: 'urlhaus', exact: true }).waitFor();
    await undo(page);
    await page.getByRole('link', { name: 'urlhaus', exact: true }).waitFor({ state: 'detached' });
  });
});

test('viewers and operators see what they may use', async () => {
  for (const [user, canFetch] of [['viewer', 0], ['operator', 1]]) {
    await policy.visit('/filtering', async (page) => {
      await page.getByRole('link', { name: 'trackers' }).waitFor();
      assert.equal(await page.getByRole('button', { name: 'Fetch all now' }).count(), canFetch);
      assert.equal(await page.getByRole('link', { name: 'Add a list' }).count(), 0);
      assert.equal(await page.getByRole('link', { name: 'Services' }).count(), 0);
      await page.getByRole('link', { name: 'Rules', exact: true }).click();
      await page.getByText('no-games').waitFor();
      assert.equal(await page.getByRole('switch').count(), 0);
    }, user);
  }
});

test('the parts about lists look right', async () => {
  await checkLooks(policy.server, 'filtering', '/filtering');
  await checkLooks(policy.server, 'filtering-list', '/filtering/lists/trackers');
  await checkLooks(policy.server, 'filtering-catalogue', '/filtering/catalogue');
});
