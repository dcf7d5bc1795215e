// A server with the policy of a household, whose pages change what it does to the next query.

import assert from 'node:assert/strict';
import { close, Visitor } from './browser.js';
import { HOUSEHOLD, Server } from './server.js';

const EVIL_RULE = `
[[rule]]
name = "<img src=x onerror=alert(1)>"
when = 'qname.contains("<img src=x")'
action = "block"
answer = "nxdomain"
`;
export const KID = '127.0.0.12';
export const ADULT = '127.0.0.11';
export const NOERROR = 0;
export const NXDOMAIN = 3;
const COMPILED_MILLIS = 10_000;

/** A server whose users change its policy. */
export class Policy {
  static async start() {
    const policy = new Policy();
    policy.server = await Server.start({
      config: `${HOUSEHOLD}${EVIL_RULE}\n[policy]\nblock-answer = "nxdomain"\n`,
    });
    await policy.server.live();
    return policy;
  }

  async stop() {
    await close();
    await this.server.stop();
  }

  /** Asks until the answer has a code: a change of lists takes effect when they are compiled. */
  async answers(name, from, rcode) {
    const end = Date.now() + COMPILED_MILLIS;
    let last;
    while (Date.now() < end) {
      last = await this.server.ask(name, { from });
      if (last === rcode) return;
      await new Promise((done) => setTimeout(done, 100));
    }
    assert.equal(last, rcode, `${name} for ${from}`);
  }

  /** Works on a page as a user. */
  visit(address, work, user) {
    return Visitor.visit(this.server, { user, address }, work);
  }
}

export const undo = (page) => page.getByRole('button', { name: 'Undo' }).last().click();
