//! `options`, and the settings that views also have.

use std::net::{IpAddr, SocketAddr};

use toml::Value;

use crate::draft::{MAX_LIMITED_RESPONSES, Rule};
use crate::hosted::ArrayTable;
use crate::networks::Networks;

use super::reader::BindReader;
use super::scope::View;
use super::signing::secs;
use super::statement::{Statement, last};

/// Settings that other modules read, because they belong to zones and views.
const READ: &[&str] = &[
    "acl",
    "key",
    "listen-on",
    "listen-on-v6",
    "port",
    "server",
    "allow-query",
    "allow-query-cache",
    "allow-recursion",
    "allow-transfer",
    "allow-update",
    "also-notify",
    "auto-dnssec",
    "catalog-zones",
    "dnssec-policy",
    "forward",
    "forwarders",
    "key-directory",
    "match-clients",
    "notify",
    "recursion",
    "response-policy",
    "zone",
];
/// Settings that do not affect answers, or whose usual value is what Avocet does anyway.
const QUIET: &[&str] = &[
    "auth-nxdomain",
    "automatic-interface-scan",
    "avoid-v4-udp-ports",
    "avoid-v6-udp-ports",
    "bindkeys-file",
    "check-names",
    "clients-per-query",
    "cookie-algorithm",
    "coresize",
    "datasize",
    "dnssec-accept-expired",
    "dnssec-enable",
    "dnssec-loadkeys-interval",
    "dnssec-update-mode",
    "dnstap",
    "dump-file",
    "edns-udp-size",
    "empty-contact",
    "empty-server",
    "files",
    "flush-zones-on-shutdown",
    "heartbeat-interval",
    "interface-interval",
    "ixfr-from-differences",
    "lmdb-mapsize",
    "lock-file",
    "managed-keys-directory",
    "masterfile-style",
    "max-clients-per-query",
    "max-journal-size",
    "max-recursion-depth",
    "max-recursion-queries",
    "max-rsa-exponent-size",
    "memstatistics",
    "memstatistics-file",
    "message-compression",
    "new-zones-directory",
    "pid-file",
    "provide-ixfr",
    "querylog",
    "recursing-file",
    "recursive-clients",
    "request-expire",
    "request-ixfr",
    "request-nsid",
    "require-server-cookie",
    "reserved-sockets",
    "resolver-query-timeout",
    "root-key-sentinel",
    "secroots-file",
    "send-cookie",
    "serial-query-rate",
    "session-keyalg",
    "session-keyfile",
    "session-keyname",
    "stacksize",
    "stale-answer-ttl",
    "stale-cache-enable",
    "stale-refresh-time",
    "startup-notify-rate",
    "statistics-file",
    "synth-from-dnssec",
    "tcp-advertised-timeout",
    "tcp-keepalive-timeout",
    "tcp-listen-queue",
    "tkey-gssapi-keytab",
    "transfer-format",
    "transfer-message-size",
    "transfers-in",
    "transfers-out",
    "transfers-per-ns",
    "try-tcp-refresh",
    "use-v4-udp-ports",
    "use-v6-udp-ports",
    "v6-bias",
    "zone-statistics",
];
/// Settings with a duration: the key of `[cache]`, and its range.
const TIMES: &[(&str, &str, (u64, u64))] = &[
    ("max-cache-ttl", "max-ttl-secs", (1, 604_800)),
    ("max-ncache-ttl", "negative-max-ttl-secs", (0, 86_400)),
    ("max-stale-ttl", "serve-stale-max-secs", (1, 604_800)),
    ("min-cache-ttl", "min-ttl-secs", (0, 86_400)),
    ("min-ncache-ttl", "negative-min-ttl-secs", (0, 3_600)),
];
/// Smallest and largest memory of a cache, in octets.
const CACHE_SIZE: (u64, u64) = (1 << 20, 1 << 40);

impl<'r> BindReader<'r> {
    /// Reads the settings of `options` or of a view.
    pub(super) fn options(&mut self, view: &View<'r>, block: &'r [Statement]) {
        for statement in block {
            let key = statement.key();
            let place = statement.place();
            if READ.contains(&key.as_str()) {
                continue;
            }
            if view.name.is_some() && !QUIET.contains(&key.as_str()) {
                self.draft.note(statement, "there is one value for the clients of all views");
                continue;
            }
            if let Some((_, to, range)) = TIMES.iter().find(|(from, ..)| *from == key) {
                match statement.word(1).and_then(secs) {
                    Some(secs) => self.draft.set_within(("cache", to), secs, *range, &place),
                    None => self.draft.note(statement, "expected a time"),
                }
                continue;
            }
            match (key.as_str(), statement.flag()) {
                ("directory", _) => {}
                ("dnssec-validation", Some(false)) => {
                    self.draft.set("dnssec", "validate", false, &place);
                }
                ("dnssec-validation", _) => self.draft.set("dnssec", "validate", true, &place),
                ("minimal-responses", Some(flag)) => {
                    self.draft.set("server", "minimal-responses", flag, &place);
                }
                ("minimal-responses", None) => self.draft.quiet("minimal-responses"),
                ("stale-answer-enable", Some(flag)) => {
                    self.draft.set("cache", "serve-stale", flag, &place);
                }
                ("qname-minimization", _) => {
                    let is_on = !matches!(statement.word(1), Some("off" | "disabled" | "no"));
                    self.draft.set("resolver", "qname-minimisation", is_on, &place);
                }
                ("prefetch", _) => {
                    self.draft.set("cache", "prefetch", statement.word(1) != Some("0"), &place);
                }
                _ => self.option(&key, statement),
            }
        }
    }

    /// Reads a setting with a value of a specific kind.
    fn option(&mut self, key: &str, statement: &'r Statement) {
        let place = statement.place();
        let number = statement.word(1).and_then(|word| word.parse::<u64>().ok());
        match (key, statement.word(1), number) {
            ("max-cache-size", Some(size), _) => self.cache_size(size, statement),
            ("max-udp-size", _, Some(size)) => {
                self.draft.set_within(("server", "max-udp-size"), size, (512, 4_096), &place);
            }
            ("tcp-clients", _, Some(count)) => {
                self.draft.set_within(("server", "tcp-connections"), count, (1, 1_000_000), &place);
            }
            ("stale-answer-client-timeout", _, Some(ms)) => {
                self.draft.set_within(("cache", "stale-client-timeout-ms"), ms, (0, 5_000), &place);
            }
            ("version", Some(text), _) => {
                self.draft.set("server", "version", if text == "none" { "" } else { text }, &place);
            }
            ("hostname" | "server-id", Some(text), _) => match text {
                "none" => {}
                "hostname" => self.draft.note(statement, "set `id-server` to the name of the host"),
                text => self.draft.set("server", "id-server", text, &place),
            },
            ("empty-zones-enable", Some("no"), _) => {
                self.draft.set("server", "local-names", false, &place);
            }
            ("empty-zones-enable" | "stale-answer-client-timeout" | "disable-empty-zone", ..) => {
                self.draft.quiet(key);
            }
            ("validate-except", ..) => {
                let names = statement.block().iter().filter_map(|name| name.word(0));
                let names: Vec<String> = names.filter_map(crate::hosted::zone_name).collect();
                self.draft.set("dnssec", "negative-anchors", names, &place);
            }
            ("rate-limit", ..) => self.rate_limit(statement),
            ("blackhole", ..) => {
                let networks = self.askers(statement);
                if !networks.is_empty() {
                    let quoted: Vec<String> =
                        networks.texts().iter().map(|net| format!("{net:?}")).collect();
                    let when = format!("client.ip.in({})", quoted.join(", "));
                    self.draft.rule(Rule::doing("drop", "blackhole", when, &place));
                }
            }
            ("dns64", Some(prefix), _) => {
                self.draft.dns64(&[prefix.to_owned()], &place);
                for inner in statement.block() {
                    self.draft.note(inner, "translation is for all clients and addresses");
                }
            }
            (key, ..) if QUIET.contains(&key) => self.draft.quiet(key),
            _ => self.draft.note(statement, "there is no such setting here"),
        }
    }

    fn cache_size(&mut self, size: &str, statement: &Statement) {
        let lower = size.to_ascii_lowercase();
        let digits = lower.trim_end_matches(['k', 'm', 'g']);
        let factor = match lower.strip_prefix(digits) {
            Some("k") => 1 << 10,
            Some("m") => 1 << 20,
            Some("g") => 1 << 30,
            _ => 1,
        };
        let octets = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        match octets {
            Some(0) | None => self.draft.note(statement, "expected a size: the default applies"),
            Some(octets) => {
                // The packet cache has half as much as the RRset cache by default.
                let (packets, rrsets) = (octets / 3, octets - octets / 3);
                let place = statement.place();
                let (low, high) = CACHE_SIZE;
                for (key, octets) in [("packet-bytes", packets), ("rrset-bytes", rrsets)] {
                    self.draft.set_within(
                        ("cache", key),
                        octets.clamp(low, high),
                        (low, high),
                        &place,
                    );
                }
            }
        }
    }

    fn rate_limit(&mut self, statement: &'r Statement) {
        for inner in statement.block() {
            let number = inner.word(1).and_then(|word| word.parse::<u64>().ok());
            let place = inner.place();
            let (key, range) = match inner.key().as_str() {
                "responses-per-second" => ("responses-per-second", (0, MAX_LIMITED_RESPONSES)),
                "slip" => ("slip", (0, 10)),
                "ipv4-prefix-length" => ("ipv4-prefix-length", (1, 32)),
                "ipv6-prefix-length" => ("ipv6-prefix-length", (1, 128)),
                "exempt-clients" => {
                    let exempt = self.askers(inner).texts();
                    self.draft.set("rate-limit", "exempt", exempt, &place);
                    continue;
                }
                "window" | "min-table-size" | "max-table-size" => {
                    self.draft.quiet(format!("rate-limit: {}", inner.key()));
                    continue;
                }
                _ => {
                    self.draft.note(inner, "one limit applies to all kinds of responses");
                    continue;
                }
            };
            match number {
                Some(number) => self.draft.set_within(("rate-limit", key), number, range, &place),
                None => self.draft.note(inner, "expected a number"),
            }
        }
    }

    /// Sets the listeners.
    pub(super) fn listeners(&mut self, options: &'r [Statement]) {
        let mut listen: Vec<String> = Vec::new();
        let mut places = Vec::new();
        let usual = last(options, "port").and_then(|port| port.word(1)?.parse().ok()).unwrap_or(53);
        for (key, any) in [("listen-on", "0.0.0.0"), ("listen-on-v6", "[::]")] {
            let written: Vec<&Statement> =
                options.iter().filter(|statement| statement.key() == key).collect();
            if written.is_empty() {
                listen.push(format!("{any}:{usual}"));
            }
            for statement in written {
                let scheme = self.scheme(statement);
                let Some((scheme, standard)) = scheme else { continue };
                let standard = if scheme.is_empty() { usual } else { standard };
                let port = statement.after("port").and_then(|port| port.parse().ok());
                let port: u16 = port.unwrap_or(standard);
                let family = Family { any, is_v6: key == "listen-on-v6" };
                for address in self.own_addresses(statement, &family) {
                    let one = format!("{scheme}{address}:{port}");
                    if !listen.contains(&one) {
                        listen.push(one);
                    }
                }
                places.push(statement.place());
            }
        }
        if !listen.iter().any(|one| !one.contains("://")) {
            let reason = "no address for plain DNS is left: the server listens on 127.0.0.1";
            self.draft.note("listen-on", reason);
            listen.push(format!("127.0.0.1:{usual}"));
        }
        let origin =
            if places.is_empty() { "the default of BIND".to_owned() } else { places.join(", ") };
        let values: Vec<Value> = listen.into_iter().map(Value::from).collect();
        self.draft.set("server", "listen", values, &origin);
    }

    /// Returns the prefix and the standard port of the listeners of a statement, or `None` if
    /// Avocet has no such listeners.
    fn scheme(&mut self, statement: &'r Statement) -> Option<(&'static str, u16)> {
        if statement.after("proxy").is_some() {
            self.draft.note(statement, "for proxies: a `[[listener]]` with `proxy-protocol-from`");
            return None;
        }
        let is_http = statement.after("http").is_some();
        let Some(tls) = statement.after("tls").map(str::to_ascii_lowercase) else {
            if is_http {
                self.draft.note(statement, "HTTP is served with TLS only");
                return None;
            }
            return Some(("", 53));
        };
        match tls.as_str() {
            "none" if is_http => {
                self.draft.note(statement, "HTTP is served with TLS only");
                None
            }
            "none" => Some(("", 53)),
            tls => {
                self.certificate(tls, statement)?;
                Some(if is_http { ("https://", 443) } else { ("tls://", 853) })
            }
        }
    }

    /// Writes a `[[certificate]]` when the first listener uses the `tls` statement with this name.
    /// Returns `None` if the statement has no certificate.
    fn certificate(&mut self, name: &str, what: &Statement) -> Option<()> {
        let tls = self.tls.get(name).copied();
        let value = |key| Some(last(tls?.block(), key)?.word(1)?.to_owned());
        let (Some(tls), Some(cert), Some(key)) = (tls, value("cert-file"), value("key-file"))
        else {
            self.draft
                .note(what, format!("{name:?} has no certificate: no address listens for it"));
            return None;
        };
        let (cert, key) = (self.path(&cert), self.path(&key));
        if !self.draft.hosted.has("certificate", &cert) {
            for inner in tls.block() {
                match inner.key().as_str() {
                    "cert-file" | "key-file" => {}
                    "protocols"
                    | "ciphers"
                    | "cipher-suites"
                    | "dhparam-file"
                    | "prefer-server-ciphers"
                    | "session-tickets" => {
                        self.draft.quiet(format!("tls: {}", inner.key()));
                    }
                    _ => self.draft.note(inner, "no equivalent for a listener"),
                }
            }
            let mut table = ArrayTable::of("certificate", tls.place());
            table.set("cert", cert);
            table.set("key", key);
            self.draft.hosted.add(table);
        }
        Some(())
    }

    /// Returns the addresses of a list of listeners, with brackets around IPv6 addresses.
    fn own_addresses(&mut self, statement: &'r Statement, family: &Family) -> Vec<String> {
        let networks = self.clients(statement.block(), statement).networks;
        if networks.is_any() {
            return vec![family.any.to_owned()];
        }
        let mut addresses = Vec::new();
        for text in networks.texts() {
            match text.parse::<IpAddr>() {
                Ok(address) if address.is_ipv6() == family.is_v6 => {
                    let shown = SocketAddr::new(address, 0).to_string();
                    addresses.extend(shown.strip_suffix(":0").map(str::to_owned));
                }
                Ok(_) => {}
                Err(_) if text == "127.0.0.0/8" => {
                    if !family.is_v6 {
                        addresses.push("127.0.0.1".to_owned());
                    }
                }
                Err(_) if text.contains(':') == family.is_v6 => {
                    let reason = format!("{text}: listeners have single addresses");
                    self.draft.note(statement, reason);
                }
                Err(_) => {}
            }
        }
        addresses
    }

    /// Reads `trust-anchors` and the statements that it replaced. The anchors of the root are built
    /// in.
    pub(super) fn anchors(&mut self, statement: &Statement, found: &mut Vec<Value>) {
        for anchor in statement.block() {
            let words: Vec<&str> =
                (0..anchor.items.len()).filter_map(|at| anchor.word(at)).collect();
            let [name, kind, data @ ..] = words.as_slice() else { continue };
            let Some(name) = crate::hosted::zone_name(name) else { continue };
            let kind = kind.to_ascii_lowercase();
            if name == "." {
                self.draft.quiet("trust-anchors of the root");
                continue;
            }
            // A key or a digest may be split into several words.
            let (rtype, head) = if kind.ends_with("-ds") { ("DS", 3) } else { ("DNSKEY", 3) };
            let data =
                if kind.starts_with(|c: char| c.is_ascii_digit()) { &words[1..] } else { data };
            if data.len() <= head {
                self.draft.note(anchor, "expected a key or a digest");
                continue;
            }
            let (numbers, text) = data.split_at(head);
            let text: String = text.concat().split_whitespace().collect();
            found.push(format!("{name}. IN {rtype} {} {text}", numbers.join(" ")).into());
        }
    }

    /// Returns the clients that may query any name: those of `allow-recursion`, or of the settings
    /// that replace it.
    pub(super) fn recursion(&mut self, view: &View<'r>) -> Networks {
        if view.find("recursion").and_then(Statement::flag) == Some(false) {
            return Networks::default();
        }
        let lists = ["allow-recursion", "allow-query-cache", "allow-query"];
        let list = lists.iter().find_map(|key| view.find(key));
        let recursion = match list {
            Some(list) => self.askers(list),
            None => Networks::local(),
        };
        match view.find("allow-query") {
            Some(query) => recursion.within(&self.askers(query)),
            None => recursion,
        }
    }
}

/// The addresses of `listen-on` or `listen-on-v6`.
struct Family {
    any: &'static str,
    is_v6: bool,
}
