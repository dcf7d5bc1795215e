// Measures the page of queries with a long log: `npm run long-log -- DIRECTORY` takes a log that
// `cargo run -p avocet-querylog --example figures -- write DIRECTORY 10000000` has left, which the
// server goes on writing. It prints the median time from the last key until the first rows of a
// search are painted, the frames of scrolling, and the CPU time of the server for the overview of the
// whole log. Both programs must be optimised.

import path from 'node:path';
import { close, Visitor } from './browser.js';
import { Server } from './server.js';

const SEARCHES = ['ads', 'n1', 'n199', '10.0.0.7', 'com', '.example', 'nothing-at-all.invalid', 'n42'];
const ROUNDS = 3;
/** Requests of the overview: the clock of processes has steps of 10 ms. */
const OVERVIEWS = 50;
const FRAMES = 600;
/** Pixels of a frame: about three screens a second at the wheel's pace, and a drag of the bar. */
const STEPS = [120, 1200];

/** Types into the search field, and returns the milliseconds from the last key until the rows that
 *  the server found are painted. */
async function search(page, words) {
  const field = page.getByRole('main').getByRole('combobox');
  await field.click();
  await page.evaluate(() => {
    performance.clearResourceTimings();
    document.addEventListener('keydown', () => (globalThis.keyAt = performance.now()), true);
  });
  await field.pressSequentially(words, { delay: 30 });
  return page.evaluate(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const isFound = () =>
      performance
        .getEntriesByType('resource')
        .some(({ name, startTime }) => /v1\/queries\?/.test(name) && startTime > globalThis.keyAt);
    while (!isFound()) await frame();
    await frame();
    await frame();
    return performance.now() - globalThis.keyAt;
  });
}

/** Scrolls down frame by frame, and returns the longest frame and those over 100 ms. */
function scroll(page, by) {
  return page.evaluate(
    async ([by, count]) => {
      const grid = document.querySelector('[role=grid]');
      const times = [];
      let before = performance.now();
      for (let frame = 0; frame < count; frame += 1) {
        grid.scrollTop += by;
        const now = await new Promise((done) => requestAnimationFrame(done));
        times.push(now - before);
        before = now;
      }
      times.sort((a, b) => a - b);
      const slow = times.filter((time) => time > 100).length;
      return { median: times[count >> 1], longest: times.at(-1), slow };
    },
    [by, FRAMES],
  );
}

/** Returns the CPU milliseconds of the server for what the overview shows of a range. */
async function overview(page, server) {
  const to = Math.floor(Date.now() / 1000);
  const range = `from=0&to=${to}`;
  const before = await server.cpuMillis();
  const entries = await page.evaluate(
    async ([range, count]) => {
      let queries = 0;
      for (let left = count; left > 0; left -= 1) {
        const [statistics] = await Promise.all([
          fetch(`/api/v1/statistics?${range}&limit=8`).then((reply) => reply.json()),
          fetch(`/api/v1/series?${range}&step=86400`).then((reply) => reply.text()),
        ]);
        queries = statistics.queries;
      }
      return queries;
    },
    [range, OVERVIEWS],
  );
  return { entries, millis: ((await server.cpuMillis()) - before) / OVERVIEWS };
}

const directory = path.resolve(process.argv[2] ?? 'log');
const server = await Server.start({ log: `true\ndirectory = "${directory}"\nretention-days = 3650` });
const count = (await server.avocet(['log', 'search', '--count'])).trim();
console.log(`${count} in ${directory}`);
const visitor = await Visitor.arrive(server);
const { page } = visitor;
try {
  await visitor.logIn('viewer', '/queries?live=no');
  await page.locator('[role=row][aria-rowindex]').nth(10).waitFor();
  for (const words of SEARCHES) {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await page.goto('/queries?live=no');
      await page.locator('[role=row][aria-rowindex]').nth(10).waitFor();
      times.push(await search(page, words));
    }
    times.sort((a, b) => a - b);
    const [least, median, most] = times.map((time) => Math.round(time));
    console.log(`${words}: ${median} ms (${least} to ${most})`);
  }
  const { entries, millis } = await overview(page, server);
  console.log(`overview of ${entries} entries: ${millis.toFixed(1)} ms of CPU time of the server`);
  for (const by of STEPS) {
    await page.goto('/queries?live=no');
    await page.locator('[role=row][aria-rowindex]').nth(10).waitFor();
    const { median, longest, slow } = await scroll(page, by);
    console.log(
      `scrolling ${by} px a frame: median ${Math.round(median)} ms, ` +
        `longest ${Math.round(longest)} ms, ${slow} of ${FRAMES} frames over 100 ms`,
    );
  }
} finally {
  await close();
  await server.stop();
}
