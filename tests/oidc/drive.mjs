// Starts oidc-provider, prints its issuer, and logs users in to Avocet as a browser would.
//
// Each line of standard input is "URL USER": the address of Avocet and the user. Each line of
// standard output is the status of the callback, the name of the session, and its scopes.
import { createServer } from "node:http";
import { createInterface } from "node:readline";

// Standard output is for replies only.
console.info = console.error;
console.warn = console.error;
const { default: Provider } = await import("oidc-provider");

const server = createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const publicUrl = process.argv[2];
const groups = { ada: ["dns-admins"], bob: ["staff", "other"], eve: [] };
const provider = new Provider(issuer, {
  clients: [{
    client_id: "avocet",
    client_secret: "a secret & more",
    redirect_uris: [`${publicUrl}/api/v1/session/oidc/callback`],
    post_logout_redirect_uris: [`${publicUrl}/`],
  }],
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, groups: groups[id] }),
  }),
  pkce: { required: () => true },
  cookies: { keys: ["for tests only"] },
});
server.on("request", provider.callback());
console.log(issuer);

// A browser: cookies by host, redirects one by one.
class Browser {
  jars = new Map();

  async send(url, form, more = {}) {
    const { host } = new URL(url);
    if (!this.jars.has(host)) this.jars.set(host, new Map());
    const jar = this.jars.get(host);
    const headers = { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join("; ") };
    const options = { redirect: "manual", headers };
    if (form) Object.assign(options, { method: "POST", body: new URLSearchParams(form) });
    if (more.method) Object.assign(options, { method: more.method, headers: { ...headers, ...more.headers } });
    const response = await fetch(url, options);
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      if (value) jar.set(name, value); else jar.delete(name);
    }
    return response;
  }

  // Follows redirects and the pages of the provider until a page of Avocet.
  async logIn(avocet, user) {
    let response = await this.send(`${avocet}/api/v1/session/oidc`);
    for (let steps = 0; steps < 20; steps += 1) {
      const location = response.headers.get("location");
      if (location) {
        const url = new URL(location, response.url).href;
        response = await this.send(url);
        if (url.startsWith(`${avocet}/`)) return response;
        continue;
      }
      const page = await response.text();
      const [, action] = /<form[^>]+action="([^"]+)"/.exec(page);
      const [, prompt] = /name="prompt" value="([^"]+)"/.exec(page);
      response = await this.send(action, { prompt, login: user, password: "any" });
    }
    throw new Error("too many steps");
  }

  // Logs out of Avocet and then of the provider. Returns the address at which the browser ends, and
  // whether the provider asks for a log-in again.
  async logOut(avocet, csrf) {
    const end = { method: "DELETE", headers: { "x-csrf-token": csrf } };
    const { provider: out } = await (await this.send(`${avocet}/api/v1/session`, null, end)).json();
    const page = await (await this.send(out)).text();
    const [, action] = /<form[^>]+action="([^"]+)"/.exec(page);
    const [, xsrf] = /name="xsrf" value="([^"]+)"/.exec(page);
    const left = await this.send(action, { xsrf, logout: "yes" });
    const local = (await this.send(`${avocet}/api/v1/session`)).status;
    let response = await this.send(`${avocet}/api/v1/session/oidc`);
    response = await this.send(response.headers.get("location"));
    const next = new URL(response.headers.get("location") ?? "/", response.url).href;
    return { left: left.headers.get("location"), local, asksAgain: !next.startsWith(`${avocet}/`) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [avocet, user] = line.split(" ");
  const browser = new Browser();
  try {
    const back = await browser.logIn(avocet, user);
    const session = await (await browser.send(`${avocet}/api/v1/session`)).json();
    const out = session.csrf ? await browser.logOut(avocet, session.csrf) : {};
    console.log(
      JSON.stringify({ status: back.status, name: session.name, scopes: session.scopes, ...out }),
    );
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
process.exit(0);
