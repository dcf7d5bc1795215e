// Scrolling through a long log: rows that are far away leave the memory, and come back.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { close, Visitor } from './browser.js';
import { Server } from './server.js';

const QUERIES = 10_000;
const AT_ONCE = 250;
/** Rows in memory and in the document at any time, however many were scrolled past. */
const MOST_KEPT = 3600;
const MOST_SHOWN = 100;

let server;
before(async () => {
  server = await Server.start();
  for (let sent = 0; sent < QUERIES; sent += AT_ONCE) {
    const from = `127.0.0.${11 + ((sent / AT_ONCE) % 8)}`;
    const names = Array.from({ length: AT_ONCE }, (_, at) => `q${sent + at}.ads.example`);
    const replies = await Promise.all(names.map((name) => server.ask(name, { from })));
    assert.ok(replies.every((rcode) => rcode !== null));
  }
  // A page shows what was logged when it was opened.
  await server.hasLogged(QUERIES);
});
after(async () => {
  await close();
  await server?.stop();
});

/** Scrolls the table by a part of its height in each frame until `isDone`, in the page; returns the
 *  longest time between two frames in milliseconds, and the most rows at once. */
function scroll(page, by, target) {
  return page.evaluate(
    async ([by, target]) => {
      const grid = document.querySelector('[role=grid]');
      const sheet = document.querySelector('[data-kept]');
      const seen = { frame: 0, frames: 0, kept: 0, shown: 0, slow: 0 };
      const position = () => Number(grid.querySelectorAll('[role=row][aria-rowindex]')[15]?.ariaRowIndex);
      let before = performance.now();
      for (let still = 0; still < 300; ) {
        const at = position();
        if (by > 0 ? at >= target : grid.scrollTop === 0) break;
        const from = grid.scrollTop;
        grid.scrollTop += by;
        const now = await new Promise((done) => requestAnimationFrame(done));
        still = grid.scrollTop === from ? still + 1 : 0;
        seen.frame = Math.max(seen.frame, now - before);
        seen.slow += now - before > 100 ? 1 : 0;
        seen.frames += 1;
        seen.kept = Math.max(seen.kept, Number(sheet.dataset.kept));
        seen.shown = Math.max(seen.shown, grid.querySelectorAll('[role=row]').length);
        before = now;
      }
      return { ...seen, position: position() };
    },
    [by, target],
  );
}

test('10,000 rows scroll down and up with a bounded number of rows in memory', async (report) => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/queries?live=no');
  const rows = page.locator('[role=row][aria-rowindex]');
  await rows.nth(30).waitFor();
  const newest = await rows.first().textContent();
  for (const [way, by] of [['down', 1200], ['up', -1200]]) {
    const seen = await scroll(page, by, QUERIES - 100);
    report.diagnostic(
      `${way}: ${seen.frames} frames, the longest ${Math.round(seen.frame)} ms, ` +
        `${seen.slow} over 100 ms; at most ${seen.kept} rows in memory, ${seen.shown} in the document`,
    );
    assert.ok(way === 'up' || seen.position >= QUERIES - 100, JSON.stringify(seen));
    assert.ok(seen.kept > 300 && seen.kept <= MOST_KEPT, JSON.stringify(seen));
    assert.ok(seen.shown <= MOST_SHOWN, JSON.stringify(seen));
  }
  await page.waitForFunction(
    (text) => document.querySelector('[role=row][aria-rowindex]')?.textContent === text,
    newest,
  );
  visitor.check();
  await visitor.leave();
});

test('the keyboard reaches rows that left the memory', async () => {
  const visitor = await Visitor.arrive(server);
  const { page } = visitor;
  await visitor.logIn('viewer', '/queries?live=no&under=ads.example');
  const rows = page.locator('[role=row][aria-rowindex]');
  await rows.nth(30).waitFor();
  const newest = await rows.first().textContent();
  await scroll(page, 1200, 6000);
  const grid = page.getByRole('grid');
  await grid.focus();
  await page.keyboard.press('Home');
  await page.waitForFunction(
    (text) => document.querySelector('[role=row][aria-rowindex]')?.textContent === text,
    newest,
  );
  await page.keyboard.press('ArrowDown');
  assert.equal(await grid.getAttribute('aria-rowcount'), '-1');
  const active = await grid.getAttribute('aria-activedescendant');
  assert.equal(await page.locator(`[id="${active}"]`).getAttribute('aria-rowindex'), '3');
  await page.keyboard.press('Enter');
  await page.locator('dialog h2').waitFor();
  await visitor.checkAccess();
  visitor.check();
  await visitor.leave();
});
