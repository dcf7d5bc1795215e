// A server for tests: the binary in AVOCET, with a data directory of its own, an upstream that
// answers by a script, users of each role, and real queries.

import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { Client, Upstream } from './dns.js';

const BINARY = path.resolve(
  process.env.AVOCET ?? new URL('../../target/debug/avocet', import.meta.url).pathname,
);
export const PASSWORD = 'correct horse battery';
export const ROLES = ['viewer', 'operator', 'admin'];
/** A name that must appear as text everywhere. */
export const EVIL = '<img src=x onerror=alert(1)>.example.';
const START_MILLIS = 20_000;
/** Most time until the log has queries that were answered, on a machine that does other work, too. */
const LOGGED_MILLIS = 20_000;

/** Lists, groups, clients and rules that most pages have something to show for. */
export const HOUSEHOLD = `
[[list]]
name = "ads"
file = "ads.txt"
tags = ["ads"]

[[list]]
name = "trackers"
file = "trackers.txt"

[[group]]
name = "kids"
clients = ["127.0.0.12"]

[[client]]
name = "tablet"
ids = ["127.0.0.12"]
groups = ["kids"]

[[client]]
name = "laptop"
ids = ["127.0.0.11"]

[[rule]]
name = "no-games"
when = 'client.group("kids") && qname.under("games.example")'
action = "block"

[[record]]
name = "printer.lan"
type = "A"
values = ["192.168.1.9"]
`;

const FILES = {
  'ads.txt': '# Advertisements\n0.0.0.0 ads.example\n0.0.0.0 banner.ads.example\n||metrics.example^\n',
  'trackers.txt': 'track.example\nads.example\n',
};

/** Lines of the log to show of a server that ended by itself. */
const LAST_LINES = 20;

/** Returns a port that is free for TCP now. */
async function freePort() {
  const server = net.createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

export class Server {
  #process;
  #basics;
  #upstream = new Upstream();
  #clients = new Map();
  #sessions = new Map();
  #token;
  #env;
  #stops = false;
  log = [];

  /** Starts a server. `config` is TOML after the basic settings, or a function from as many ports as
   *  `ports` says to it; `script` is that of the upstream, `files` are those of the directory, and
   *  `env` adds to the environment of the process. */
  static async start(options = {}) {
    const { config = HOUSEHOLD, ports = 0, script, files = FILES, users = true, log = true, env } = options;
    const server = new Server();
    server.#env = { ...process.env, ...env };
    server.directory = await mkdtemp(path.join(os.tmpdir(), 'avocet-ui-'));
    const upstream = await server.#upstream.start(script);
    for (const [name, text] of Object.entries(files)) {
      await writeFile(path.join(server.directory, name), text);
    }
    const own = typeof config === 'function' ? config : () => config;
    server.#basics = (dns, http, more) => `
[server]
listen = ["127.0.0.1:${dns}"]
http = "127.0.0.1:${http}"
workers = 1

[data]
directory = "${server.directory}/data"

[query-log]
enabled = ${log}

[[forward]]
zone = "."
upstreams = ["${upstream}"]
${own(more)}`;
    server.file = path.join(server.directory, 'avocet.toml');
    try {
      await server.#runSomewhere(ports);
      for (const role of users ? ROLES : []) await server.addUser(role, role);
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** Servers of other tests draw random ports, which may take a free one before this server. */
  async #runSomewhere(more) {
    for (let left = 5; ; left -= 1) {
      const drawn = new Set();
      while (drawn.size < 2 + more) drawn.add(await freePort());
      const [dns, http, ...others] = drawn;
      this.ports = others;
      this.dns = { address: '127.0.0.1', port: dns };
      this.url = `http://127.0.0.1:${http}`;
      await writeFile(this.file, this.#basics(dns, http, others));
      try {
        return await this.#run();
      } catch (error) {
        if (left === 0 || !/another server is using it/.test(error.message)) throw error;
      }
    }
  }

  async #run() {
    this.log = [];
    // Not by way of `this`: the next attempt has a process of its own.
    const started = spawn(BINARY, ['serve', '--config', this.file], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: this.#env,
    });
    this.#process = started;
    const lines = readline.createInterface({ input: started.stderr });
    const timer = setTimeout(() => started.kill('SIGKILL'), START_MILLIS);
    try {
      await new Promise((done, fail) => {
        lines.on('line', (line) => {
          this.log.push(line);
          if (line.includes('serving')) done();
        });
        started.once('error', fail);
        started.once('exit', (code, signal) =>
          fail(new Error(`exit ${code ?? signal}\n${this.log.join('\n')}`)),
        );
      });
    } finally {
      clearTimeout(timer);
    }
    started.once('exit', (code, signal) => {
      // The tests after this one fail without it, and none of them shows why.
      const last = this.log.slice(-LAST_LINES).join('\n');
      if (!this.#stops) console.error(`the server ended by itself: ${code ?? signal}\n${last}`);
    });
  }

  /** Runs a command of avocet, and returns its output. */
  avocet(args, input = '') {
    return new Promise((done, fail) => {
      const child = execFile(BINARY, [...args, '--config', this.file], (error, stdout, stderr) =>
        error ? fail(new Error(`${args.join(' ')}: ${stderr}`)) : done(stdout),
      );
      // A command that reads nothing may have ended before.
      child.stdin.on('error', () => {});
      child.stdin.end(input);
    });
  }

  /** Returns the text of the configuration file. */
  text() {
    return readFile(this.file, 'utf8');
  }

  async addUser(name, role, more = []) {
    await this.avocet(['user', 'add', name, '--role', role, ...more], `${PASSWORD}\n`);
  }

  /** Returns a token that reads the configuration. */
  async token() {
    const scopes = ['--scope', 'config:read', '--scope', 'status:read'];
    this.#token ??= (await this.avocet(['token', 'create', 'tests', ...scopes])).trim();
    return this.#token;
  }

  /** Returns the cookie of a session of a user, as `name=value`. All visits share it: the hash of a
   *  password takes as much time as a page. */
  async session(name) {
    const address = `${this.url}/api/v1/session`;
    const kept = this.#sessions.get(name);
    // A test may have ended it.
    if (kept && (await fetch(address, { headers: { cookie: kept } })).ok) return kept;
    const begun = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: this.url },
      body: JSON.stringify({ name, password: PASSWORD }),
    });
    if (!begun.ok) throw new Error(`log-in of ${name}: ${await begun.text()}`);
    const cookie = begun.headers.get('set-cookie').split(';')[0];
    this.#sessions.set(name, cookie);
    return cookie;
  }

  /** Returns the part of the set-up link after the host, which the log has. */
  setUpPath() {
    const line = this.log.find((one) => one.includes('/setup#'));
    return line?.match(/\/setup#\S+/)?.[0] ?? null;
  }

  /** Sends a query as a client at an address of this machine; returns the RCODE. */
  async ask(name, { type = 'A', from = '127.0.0.1' } = {}) {
    // The promise is kept, not the client: queries at the same time share one socket.
    if (!this.#clients.has(from)) this.#clients.set(from, new Client().start(from));
    const client = await this.#clients.get(from);
    return client.ask(this.dns, name, type);
  }

  /** Sends the queries of a small household, with some of each outcome and the evil name. */
  async live() {
    const names = ['example.com', 'www.example.org', 'mail.example.net', 'cdn.example.com'];
    for (const from of ['127.0.0.11', '127.0.0.12']) {
      for (const name of names) await this.ask(name, { from });
      for (const name of names) await this.ask(name, { from });
      await this.ask('ads.example', { from });
      await this.ask('banner.ads.example', { from });
      await this.ask('track.example', { from, type: 'AAAA' });
    }
    await this.ask('games.example', { from: '127.0.0.12' });
    await this.ask('printer.lan', { from: '127.0.0.11' });
    await this.ask(EVIL, { from: '127.0.0.11' });
  }

  /** Waits until the log has a number of queries, which takes up to about a second after the last. */
  async hasLogged(count) {
    let found = 0;
    for (const end = Date.now() + LOGGED_MILLIS; Date.now() < end; ) {
      found = Number((await this.avocet(['log', 'search', '--count'])).match(/\d+/)?.[0]);
      if (found >= count) return;
    }
    throw new Error(`${found} of ${count} queries are in the log`);
  }

  async stop() {
    for (const client of await Promise.all(this.#clients.values())) client.stop();
    this.#upstream.stop();
    this.#stops = true;
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = new Promise((done) => this.#process.once('exit', done));
      this.#process.kill('SIGTERM');
      await ended;
    }
    await rm(this.directory, { recursive: true, force: true });
  }

  /** Returns the processor time that the server has used, in milliseconds. */
  async cpuMillis() {
    const stat = await readFile(`/proc/${this.#process.pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  }
}
