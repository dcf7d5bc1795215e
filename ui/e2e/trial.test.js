// Before a change is made, the log shows whom it would affect. It never keeps anybody from it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { close, Visitor } from './browser.js';
import { EVIL, HOUSEHOLD, Server } from './server.js';

const NEW_RULE = `/filtering/rules?new&name=no+mail&when=${encodeURIComponent('qname.under("mail.example.net")')}`;

let server;
before(async () => {
  server = await Server.start({ config: `${HOUSEHOLD}\n[policy]\nblock-answer = "nxdomain"\n` });
  await server.live();
});
after(async () => {
  await close();
  await server?.stop();
});

const visit = (at, address, work, look) => Visitor.visit(at, { address, ...look }, work);

/** Opens what would change until the log has the queries: they are written after the answers. */
async function ask(page, shown) {
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'What would change?' }).click();
  for (let left = 20; left > 0; left -= 1) {
    // The text that the dialog shows while it waits also says "judged again".
    await dialog.getByText('You need not wait').waitFor({ state: 'detached' });
    await dialog.getByText(/judged again\.|nothing to compare/).first().waitFor();
    if (await dialog.getByText(shown).count()) return dialog;
    await dialog.getByText(left % 2 ? 'Past day' : 'Past week').click();
  }
  throw new Error(`the dialog has no ${shown}: ${await dialog.innerText()}`);
}

test('a new rule shows the names and clients that it would block, and is made from there', async () => {
  await visit(server, NEW_RULE, async (page, visitor) => {
    await page.getByText('The server accepts this rule.').waitFor();
    const dialog = await ask(page, '4 queries would be blocked');
    await dialog.getByText('rule "no mail"').or(dialog.getByText('no mail')).first().waitFor();
    const link = await dialog.getByRole('link', { name: 'mail.example.net' }).getAttribute('href');
    assert.match(link, /^\/queries\?name=mail\.example\.net&from=\d+$/);
    await dialog.getByRole('link', { name: 'tablet' }).waitFor();
    await dialog.getByText('2 clients').waitFor();
    await visitor.checkAccess();
    await visitor.picture('trial-light');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' }).catch(() => {});
    assert.doesNotMatch(await server.text(), /no mail/);
    assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue(), 'no mail');
    await page.getByRole('button', { name: 'What would change?' }).click();
    await page.getByRole('button', { name: 'Make the change' }).click();
    await page.getByText('The rule no mail is in force.').waitFor();
    assert.match(await server.text(), /no mail/);
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await page.getByText('The change is undone.').waitFor();
  });
});

test('a link of the dialog shows the queries', async () => {
  await visit(server, NEW_RULE, async (page, visitor) => {
    await page.getByText('The server accepts this rule.').waitFor();
    const dialog = await ask(page, '4 queries would be blocked');
    const opened = visitor.context.waitForEvent('page');
    await dialog.getByRole('link', { name: 'mail.example.net' }).click();
    const tab = await opened;
    await tab.getByText('mail.example.net').first().waitFor();
    assert.match(tab.url(), /\/queries\?name=mail\.example\.net/);
  });
});

test('names that clients chose are text', async () => {
  await visit(server, '/filtering/rules?new&name=all&when=true', async (page) => {
    await page.getByText('The server accepts this rule.').waitFor();
    const dialog = await ask(page, '6 names');
    await dialog.getByText('<img').first().waitFor();
  });
});

test('with the switch, each change waits, and a cancelled one changes nothing', async () => {
  const before = await server.text();
  await visit(server, '/filtering/services?group=kids', async (page) => {
    await page.getByRole('switch', { name: 'Show what would change first' }).click();
    await page.getByRole('switch', { name: 'TikTok' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('No logged query would change').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('switch', { name: 'TikTok', checked: false }).waitFor();
    assert.equal(await server.text(), before);
    await page.getByRole('switch', { name: 'TikTok' }).click();
    await page.getByRole('button', { name: 'Make the change' }).click();
    await page.getByText('TikTok is blocked for kids.').waitFor();
    await page.getByRole('switch', { name: 'TikTok', checked: true }).waitFor();
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await page.getByText('The change is undone.').waitFor();
    await page.getByRole('link', { name: 'Lists' }).click();
    const row = page.getByRole('row').filter({ hasText: 'trackers' });
    await row.getByRole('button', { name: 'kids' }).click();
    await dialog.getByText('would not be blocked any more').waitFor();
    await dialog.getByText('track.example').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    assert.equal(await row.getByRole('button', { name: 'kids' }).getAttribute('aria-pressed'), 'true');
  });
  assert.equal(await server.text(), before);
});

test('the bar of the settings asks too', async () => {
  await visit(server, '/settings/configuration/policy', async (page) => {
    await page.getByRole('textbox', { name: 'block-ttl-secs', exact: true }).fill('77');
    const dialog = await ask(page, 'No logged query would change');
    await dialog.getByRole('button', { name: 'Make the change' }).click();
    await page.getByText('Saved and in force.').waitFor();
    assert.match(await server.text(), /block-ttl-secs = 77/);
  });
});

test('a phone shows it in German', async () => {
  await visit(server, NEW_RULE, async (page, visitor) => {
    await page.getByRole('button', { name: 'Was würde sich ändern?' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('4 Anfragen würden blockiert').waitFor();
    await visitor.checkWidth();
    await visitor.checkAccess();
    await visitor.picture('trial-phone-german');
  }, { size: 'phone', language: 'de', theme: 'dark' });
});

test('without a log, it says so, and the change is made all the same', async () => {
  const silent = await Server.start({ log: false });
  try {
    await visit(silent, NEW_RULE, async (page) => {
      await page.getByText('The server accepts this rule.').waitFor();
      await page.getByRole('button', { name: 'What would change?' }).click();
      await page.getByRole('dialog').getByText('The query log is off').waitFor();
      await page.getByRole('button', { name: 'Make the change' }).click();
      await page.getByText('The rule no mail is in force.').waitFor();
    });
  } finally {
    await silent.stop();
  }
});
