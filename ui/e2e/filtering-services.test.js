// Filtering, its switches for services and its schedules.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks } from './browser.js';
import { ADULT, KID, NOERROR, NXDOMAIN, Policy, undo } from './policy.js';

let policy;
before(async () => {
  policy = await Policy.start();
});
after(() => policy?.stop());

test('a service is blocked for a group by a switch, and safe search is turned on', async () => {
  await policy.visit('/filtering/services?group=kids', async (page) => {
    await page.getByRole('switch', { name: 'TikTok' }).click();
    await page.getByText('TikTok is blocked for kids.').waitFor();
    await policy.answers('www.tiktok.com', KID, NXDOMAIN);
    await policy.answers('www.tiktok.com', ADULT, NOERROR);
    await page.getByRole('switch', { name: 'Reddit' }).click();
    await page.getByText('Reddit is blocked for kids.').waitFor();
    await page.getByRole('switch', { name: 'TikTok', checked: true }).click();
    await page.getByText('TikTok is not blocked').waitFor();
    await policy.answers('www.tiktok.com', KID, NOERROR);
    await policy.answers('www.reddit.com', KID, NXDOMAIN);
    await page.getByRole('switch', { name: 'Safe search' }).click();
    await page.getByText('Safe search is on for kids.').waitFor();
  });
  const rules = await policy.server.avocet(['policy', 'status']);
  assert.match(rules, /safe search for kids/);
});

test('Firefox and Private Relay are told to use this server, or not, by switches', async () => {
  const [firefox, relay] = ['use-application-dns.net', 'mask.icloud.com'];
  await policy.answers(firefox, ADULT, NXDOMAIN);
  await policy.answers(relay, ADULT, NOERROR);
  await policy.visit('/filtering/services', async (page) => {
    await page.getByRole('switch', { name: 'Firefox uses this server', checked: true }).click();
    await page.getByText('Off: Firefox uses this server.').waitFor();
    await policy.answers(firefox, ADULT, NOERROR);
    await page.getByRole('switch', { name: 'No iCloud Private Relay', checked: false }).click();
    await page.getByText('On: No iCloud Private Relay.').waitFor();
    await policy.answers(relay, ADULT, NXDOMAIN);
    await undo(page);
    await policy.answers(relay, ADULT, NOERROR);
    await page.getByRole('switch', { name: 'No iCloud Private Relay', checked: false }).waitFor();
  });
  await policy.visit('/filtering/services', async (page) => {
    const all = page.getByRole('switch', { name: /Firefox|Relay/ });
    assert.equal(await all.count(), 0);
  }, 'viewer');
});

test('a schedule of a week is painted, in force and shown again', async () => {
  const today = new Intl.DateTimeFormat('en', { weekday: 'short', timeZone: 'UTC' }).format();
  await policy.visit('/filtering/schedules?new&group=kids', async (page) => {
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('school');
    await page.getByText('names', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Names' }).fill('chat.example');
    await page.getByRole('button', { name: today, exact: true }).click();
    const cell = page.getByRole('gridcell', { name: 'Tue 05:00' });
    await cell.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The schedule school is in force.').waitFor();
    await policy.answers('chat.example', KID, NXDOMAIN);
    await policy.answers('chat.example', ADULT, NOERROR);
    await page.getByRole('link', { name: 'school' }).click();
    await page.getByRole('gridcell', { name: `${today} 00:00` }).waitFor();
    const marked = await page.getByRole('gridcell', { selected: true }).count();
    assert.equal(marked, today === 'Tue' ? 23 : 25);
  });
});

test('the parts about services and schedules look right', async () => {
  await checkLooks(policy.server, 'filtering-services', '/filtering/services?group=kids');
  await checkLooks(policy.server, 'filtering-schedule', '/filtering/schedules/school');
});
