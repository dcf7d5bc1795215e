// Filtering: what a page changes is what the server does to the next query.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, close, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const EVIL_RULE = `
[[rule]]
name = "<img src=x onerror=alert(1)>"
when = 'qname.contains("<img src=x")'
action = "block"
answer = "nxdomain"
`;
const KID = '127.0.0.12';
const ADULT = '127.0.0.11';

let server;
before(async () => {
  server = await Server.start({
    config: `${HOUSEHOLD}${EVIL_RULE}\n[policy]\nblock-answer = "nxdomain"\n`,
  });
  await server.live();
});
after(async () => {
  await close();
  await server?.stop();
});

const NOERROR = 0;
const NXDOMAIN = 3;

/** Asks until the answer has a code: a change of lists takes effect when they are compiled. */
async function answers(name, from, rcode) {
  const end = Date.now() + 10_000;
  let last;
  while (Date.now() < end) {
    last = await server.ask(name, { from });
    if (last === rcode) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.equal(last, rcode, `${name} for ${from}`);
}

async function visit(address, work, user = 'admin') {
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

const undo = (page) => page.getByRole('button', { name: 'Undo' }).last().click();

test('lists show how much of the log only they block', async () => {
  await visit('/filtering', async (page) => {
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
  await answers('track.example', ADULT, NXDOMAIN);
  await visit('/filtering', async (page) => {
    const row = page.getByRole('row').filter({ hasText: 'trackers' });
    await row.getByRole('button', { name: 'Devices without a group' }).click();
    await page.getByText('trackers is off for').waitFor();
    await answers('track.example', ADULT, NOERROR);
    await answers('track.example', KID, NXDOMAIN);
    await undo(page);
    await page.getByText('The change is undone.').waitFor();
    await answers('track.example', ADULT, NXDOMAIN);
  });
});

test('a list is removed and comes back with its comments', async () => {
  const before = await server.text();
  await visit('/filtering/lists/trackers', async (page) => {
    await page.getByText('3').first().waitFor();
    await page.getByRole('button', { name: 'Remove the list' }).click();
    await page.getByText('The list trackers is removed.').waitFor();
    await answers('track.example', ADULT, NOERROR);
    await undo(page);
    await answers('track.example', ADULT, NXDOMAIN);
  });
  assert.equal(await server.text(), before);
});

test('a list of the catalogue is added', async () => {
  await visit('/filtering/catalogue', async (page) => {
    await page.getByRole('button', { name: 'Add: URLhaus' }).click();
    await page.getByText('The list urlhaus is added.').waitFor();
    await page.getByRole('button', { name: 'Close' }).first().click();
    await page.getByRole('link', { name: 'urlhaus', exact: true }).waitFor();
    await undo(page);
    await page.getByRole('link', { name: 'urlhaus', exact: true }).waitFor({ state: 'detached' });
  });
});

test('a rule is written in the form, shown as text, and in force', async () => {
  await answers('video.example', KID, NOERROR);
  await visit('/filtering/rules?new', async (page) => {
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
    await answers('www.video.example', KID, NXDOMAIN);
    await answers('www.video.example', ADULT, NOERROR);
    const row = page.getByRole('listitem').filter({ hasText: 'no video' });
    await row.getByRole('switch').click();
    await page.getByText('The rule no video is off.').waitFor();
    await answers('www.video.example', KID, NOERROR);
  });
});

test('an error of a condition has its column, and the form follows the text', async () => {
  await visit('/filtering/rules/no-games', async (page) => {
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
  await visit('/filtering/rules', async (page) => {
    const names = () => page.locator('ol li a').allTextContents();
    const before = await names();
    await page.getByRole('button', { name: `Move down: ${before[0]}` }).click();
    await page.getByText('has another place').waitFor();
    const after = await names();
    assert.deepEqual(after.slice(0, 2), [before[1], before[0]]);
  });
});

test('a service is blocked for a group by a switch, and safe search is turned on', async () => {
  await visit('/filtering/services?group=kids', async (page) => {
    await page.getByRole('switch', { name: 'TikTok' }).click();
    await page.getByText('TikTok is blocked for kids.').waitFor();
    await answers('www.tiktok.com', KID, NXDOMAIN);
    await answers('www.tiktok.com', ADULT, NOERROR);
    await page.getByRole('switch', { name: 'Reddit' }).click();
    await page.getByText('Reddit is blocked for kids.').waitFor();
    await page.getByRole('switch', { name: 'TikTok', checked: true }).click();
    await page.getByText('TikTok is not blocked').waitFor();
    await answers('www.tiktok.com', KID, NOERROR);
    await answers('www.reddit.com', KID, NXDOMAIN);
    await page.getByRole('switch', { name: 'Safe search' }).click();
    await page.getByText('Safe search is on for kids.').waitFor();
  });
  const rules = await server.avocet(['policy', 'status']);
  assert.match(rules, /safe search for kids/);
});

test('Firefox and Private Relay are told to use this server, or not, by switches', async () => {
  const [firefox, relay] = ['use-application-dns.net', 'mask.icloud.com'];
  await answers(firefox, ADULT, NXDOMAIN);
  await answers(relay, ADULT, NOERROR);
  await visit('/filtering/services', async (page) => {
    await page.getByRole('switch', { name: 'Firefox uses this server', checked: true }).click();
    await page.getByText('Off: Firefox uses this server.').waitFor();
    await answers(firefox, ADULT, NOERROR);
    await page.getByRole('switch', { name: 'No iCloud Private Relay', checked: false }).click();
    await page.getByText('On: No iCloud Private Relay.').waitFor();
    await answers(relay, ADULT, NXDOMAIN);
    await undo(page);
    await answers(relay, ADULT, NOERROR);
    await page.getByRole('switch', { name: 'No iCloud Private Relay', checked: false }).waitFor();
  });
  await visit('/filtering/services', async (page) => {
    const all = page.getByRole('switch', { name: /Firefox|Relay/ });
    assert.equal(await all.count(), 0);
  }, 'viewer');
});

test('a schedule of a week is painted, in force and shown again', async () => {
  const today = new Intl.DateTimeFormat('en', { weekday: 'short', timeZone: 'UTC' }).format();
  await visit('/filtering/schedules?new&group=kids', async (page) => {
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
    await answers('chat.example', KID, NXDOMAIN);
    await answers('chat.example', ADULT, NOERROR);
    await page.getByRole('link', { name: 'school' }).click();
    await page.getByRole('gridcell', { name: `${today} 00:00` }).waitFor();
    const marked = await page.getByRole('gridcell', { selected: true }).count();
    assert.equal(marked, today === 'Tue' ? 23 : 25);
  });
});

test('"Try it" gives the verdict with its reasons, at an address', async () => {
  await visit('/filtering/try?name=games.example&client=tablet', async (page) => {
    await page.getByText('by rule no-games').waitFor();
    await page.getByRole('textbox', { name: 'Name' }).fill('ads.example');
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('0.0.0.0 ads.example').waitFor();
    assert.match(page.url(), /name=ads\.example&client=tablet/);
  }, 'viewer');
});

test('viewers and operators see what they may use', async () => {
  for (const [user, canFetch] of [['viewer', 0], ['operator', 1]]) {
    await visit('/filtering', async (page) => {
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

test('the parts look right', async () => {
  await checkLooks(server, 'filtering', '/filtering');
  await checkLooks(server, 'filtering-rules', '/filtering/rules');
  await checkLooks(server, 'filtering-rule', '/filtering/rules/no-games');
  await checkLooks(server, 'filtering-services', '/filtering/services?group=kids');
  await checkLooks(server, 'filtering-schedule', '/filtering/schedules/school');
  await checkLooks(server, 'filtering-list', '/filtering/lists/trackers');
  await checkLooks(server, 'filtering-catalogue', '/filtering/catalogue');
  await checkLooks(server, 'filtering-try', '/filtering/try?name=ads.example&client=tablet', async (page) => {
    await page.getByText('by list').waitFor();
  });
});
