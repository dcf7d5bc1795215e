// Just enough of DNS for tests: queries by real packets, and an upstream that answers by a script.

import dgram from 'node:dgram';

export const TYPES = { A: 1, NS: 2, CNAME: 5, SOA: 6, MX: 15, TXT: 16, AAAA: 28, HTTPS: 65 };

/** Encodes a name. Its labels may have any octet but a dot. */
function encodeName(name) {
  const labels = name.split('.').filter(Boolean);
  const parts = labels.map((label) => {
    const octets = Buffer.from(label, 'latin1');
    return Buffer.concat([Buffer.from([octets.length]), octets]);
  });
  return Buffer.concat([...parts, Buffer.from([0])]);
}

function encodeQuery(id, name, type) {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(id, 0);
  head.writeUInt16BE(0x0100, 2);
  head.writeUInt16BE(1, 4);
  const tail = Buffer.alloc(4);
  tail.writeUInt16BE(TYPES[type] ?? Number(type), 0);
  tail.writeUInt16BE(1, 2);
  return Buffer.concat([head, encodeName(name), tail]);
}

/** Reads the question of a message. */
function question(message) {
  let at = 12;
  const labels = [];
  while (message[at]) {
    labels.push(message.subarray(at + 1, at + 1 + message[at]).toString('latin1'));
    at += 1 + message[at];
  }
  return { name: `${labels.join('.')}.`, type: message.readUInt16BE(at + 1), end: at + 5 };
}

/** An upstream. `script(name, type)` returns `{ rcode, address, delay, silent }`, or nothing for a
 *  fixed address. */
export class Upstream {
  #socket = dgram.createSocket('udp4');

  async start(script = () => undefined) {
    this.#socket.on('message', (message, peer) => {
      const asked = question(message);
      const plan = script(asked.name.toLowerCase(), asked.type) ?? {};
      if (plan.silent) return;
      setTimeout(() => this.#reply(message, asked, plan, peer), plan.delay ?? 0);
    });
    await new Promise((done) => this.#socket.bind(0, '127.0.0.1', done));
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  #reply(message, asked, plan, peer) {
    const head = Buffer.from(message.subarray(0, asked.end));
    const hasAddress = !plan.rcode && asked.type === TYPES.A;
    head.writeUInt16BE(0x8180 | (plan.rcode ?? 0), 2);
    head.writeUInt16BE(hasAddress ? 1 : 0, 6);
    head.writeUInt16BE(0, 8);
    head.writeUInt16BE(0, 10);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1]);
    if (plan.address) plan.address.split('.').forEach((part, at) => (record[12 + at] = Number(part)));
    this.#socket.send(hasAddress ? Buffer.concat([head, record]) : head, peer.port, peer.address);
  }

  stop() {
    this.#socket.close();
  }
}

/** A client at an address of this machine, such as 127.0.0.7. */
export class Client {
  #socket = dgram.createSocket('udp4');
  #waiting = new Map();
  #id = 1;

  async start(address = '127.0.0.1') {
    this.#socket.on('message', (message) => {
      this.#waiting.get(message.readUInt16BE(0))?.(message.readUInt16BE(2) & 15);
      this.#waiting.delete(message.readUInt16BE(0));
    });
    await new Promise((done) => this.#socket.bind(0, address, done));
    return this;
  }

  /** Sends a query, and returns the RCODE of the reply; null if there is none. */
  ask(server, name, type = 'A', patience = 5000) {
    const id = this.#id;
    this.#id = (this.#id % 65_535) + 1;
    return new Promise((done) => {
      const timer = setTimeout(() => done(null), patience);
      this.#waiting.set(id, (rcode) => {
        clearTimeout(timer);
        done(rcode);
      });
      this.#socket.send(encodeQuery(id, name, type), server.port, server.address);
    });
  }

  stop() {
    this.#socket.close();
  }
}
