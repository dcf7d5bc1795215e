//! dnsmasq: `dnsmasq.conf`, the files it includes, and the hosts files it names (dnsmasq(8)).
//!
//! Pi-hole's settings may contain lines of dnsmasq, so [`apply`] takes statements from any source.

mod domain;
mod records;
mod statement;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::draft::{Draft, ListKind, Record, Reverse, Rule, address_type};
use crate::source::{self, Error, Files, MAX_TEXT, malformed};
use crate::{hosts, name, reverse};
use domain::{Domains, Names};
pub(crate) use statement::{Statement, statements};

/// Range of `min-ttl-secs`, which dnsmasq limits to an hour, and upper bound of `max-ttl-secs`, in
/// seconds.
const MIN_TTL_RANGE: (u64, u64) = (0, 3_600);
const MAX_TTL_RANGE: (u64, u64) = (0, 86_400);

/// Statements that are converted, in addition to the statements of [`records`].
const CARRIED: &[&str] = &[
    "addn-hosts",
    "address",
    "all-servers",
    "bogus-nxdomain",
    "domain",
    "domain-needed",
    "expand-hosts",
    "filter-A",
    "filter-AAAA",
    "hostsdir",
    "listen-address",
    "local",
    "local-ttl",
    "max-cache-ttl",
    "max-ttl",
    "min-cache-ttl",
    "no-hosts",
    "no-resolv",
    "port",
    "rebind-domain-ok",
    "resolv-file",
    "rev-server",
    "server",
    "stop-dns-rebind",
    "strict-order",
];

/// Statements that do not affect answers, or whose effect is what Avocet does anyway.
const QUIET: &[&str] = &[
    "bind-dynamic",
    "bind-interfaces",
    "bogus-priv",
    "clear-on-reload",
    "conf-script",
    "dnssec-check-unsigned",
    "edns-packet-max",
    "filterwin2k",
    "group",
    "keep-in-foreground",
    "localise-queries",
    "log-async",
    "log-debug",
    "log-facility",
    "log-queries",
    "no-daemon",
    "no-poll",
    "pid-file",
    "quiet-dhcp",
    "trust-anchor",
    "user",
];

/// Prefixes of statements without a counterpart, with the reason.
const LEFT: &[(&str, &str)] = &[
    ("dhcp", "DHCP is not supported"),
    ("enable-ra", "DHCP is not supported"),
    ("ra-", "DHCP is not supported"),
    ("read-ethers", "DHCP is not supported"),
    ("enable-tftp", "TFTP is not supported"),
    ("tftp", "TFTP is not supported"),
    ("pxe", "TFTP is not supported"),
    ("auth-", "authoritative zones are not imported; write them as [[record]]"),
    ("interface-name", "addresses of interfaces are not supported: write a [[record]]"),
    ("interface", "listeners are specified by address: write them in `listen` of [server]"),
    ("except-interface", "listeners are specified by address: write them in `listen` of [server]"),
    ("cache-size", "caches are sized in octets here: see [cache]"),
    ("dnssec", "recursion validates here; what comes from forwarding is not validated"),
    ("ipset", "sets of the packet filter are not filled from answers"),
    ("nftset", "sets of the packet filter are not filled from answers"),
    ("add-subnet", "client subnets are not added"),
    ("no-negcache", "negative answers are always cached; see `negative-max-ttl-secs`"),
];

/// Reads `dnsmasq.conf` at `path`.
pub(crate) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    let statements = statement::gather(path, files, draft)?;
    if !statements.iter().any(is_known) {
        return Err(malformed(path, "no dnsmasq settings found"));
    }
    let has = |key: &str| statements.iter().any(|statement| statement.key == key);
    let asks_resolv_conf = !has("no-resolv") && !has("resolv-file");
    if !has("no-hosts") {
        draft.note(
            "/etc/hosts",
            "host names of the machine are not imported; name the file in addn-hosts to include \
             them",
        );
    }
    listen(&statements, draft);
    apply(&statements, files, draft);
    if asks_resolv_conf {
        draft.note(
            "/etc/resolv.conf",
            "its servers are not imported; names without a [[forward]] are resolved from the root",
        );
    }
    Ok(())
}

/// Reports whether the import knows the statement as one of dnsmasq, even if it has no equivalent.
fn is_known(statement: &Statement) -> bool {
    let key = statement.key.as_str();
    CARRIED.contains(&key)
        || records::KEYS.contains(&key)
        || QUIET.contains(&key)
        || key.starts_with("dhcp-")
}

/// Reads the listen addresses. The default is all addresses.
fn listen(statements: &[Statement], draft: &mut Draft) {
    let of = |key: &'static str| statements.iter().filter(move |statement| statement.key == key);
    let port: u16 =
        of("port").next_back().and_then(|statement| statement.value.parse().ok()).unwrap_or(53);
    if port == 0 {
        return draft.note("port=0", "dnsmasq answered no queries; `listen` keeps its default");
    }
    let written = of("listen-address").flat_map(|statement| statement.value.split(','));
    let (mut addresses, mut wrong) = (Vec::new(), Vec::new());
    for text in written.map(str::trim) {
        match text.parse() {
            Ok(ip) => addresses.push(SocketAddr::new(ip, port)),
            Err(_) => wrong.push(text),
        }
    }
    for text in wrong {
        draft.note(format!("listen-address={text}"), "listeners are specified by address");
    }
    if addresses.is_empty() {
        addresses = [IpAddr::from([0; 4]), IpAddr::from([0; 16])]
            .map(|ip| SocketAddr::new(ip, port))
            .to_vec();
    }
    draft.listen(&addresses, "dnsmasq listened there: stop it first");
}

/// Adds statements from any source to the draft.
pub(crate) fn apply(statements: &[Statement], files: &dyn Files, draft: &mut Draft) {
    let mut state = State::of(statements);
    for statement in in_order(statements) {
        state.take(statement, files, draft);
    }
    state.close(draft);
}

/// Returns the statements in the order in which dnsmasq processes them. If an address has several
/// names, the first one counts: `host-record` comes first, then the hosts file that is named last.
fn in_order(statements: &[Statement]) -> impl Iterator<Item = &Statement> {
    let of = |keys: &'static [&'static str]| {
        statements.iter().filter(move |one| keys.contains(&one.key.as_str()))
    };
    let others = statements
        .iter()
        .filter(|one| !["host-record", "addn-hosts", "hostsdir"].contains(&one.key.as_str()));
    of(&["host-record"]).chain(others).chain(of(&["addn-hosts"]).rev()).chain(of(&["hostsdir"]))
}

/// State shared by several statements.
#[derive(Default)]
struct State {
    domains: Domains,
    names: Names,
    /// `local-ttl`, in seconds.
    local_ttl: Option<u32>,
    /// Names blocked with all names below them, in order of appearance.
    blocked: Vec<String>,
    /// Names with their own answers or servers.
    answered: Vec<String>,
    /// Names with an address that also applies to all names below them.
    addressed: HashSet<String>,
    /// Whether blocked names are answered with NXDOMAIN.
    by_nxdomain: bool,
    by_zero: bool,
    /// Addresses of `bogus-nxdomain`. A response with one of them becomes NXDOMAIN.
    bogus: Vec<IpAddr>,
    strategy: Option<Strategy>,
}

enum Strategy {
    Ordered,
    All,
}

impl State {
    fn of(statements: &[Statement]) -> Self {
        let last = |key: &str| statements.iter().rev().find(|statement| statement.key == key);
        Self {
            domains: Domains::of(statements),
            names: last("expand-hosts").map_or(Names::AsWritten, |_| Names::Expanded),
            local_ttl: last("local-ttl").and_then(|found| found.value.parse().ok()),
            ..Self::default()
        }
    }

    fn take(&mut self, statement: &Statement, files: &dyn Files, draft: &mut Draft) {
        let Statement { key, value, place } = statement;
        let place = place.as_str();
        match key.as_str() {
            "address" => self.address(statement, draft),
            "server" | "local" => self.server(statement, draft),
            "rev-server" => rev_server(statement, draft),
            "addn-hosts" | "hostsdir" => self.hosts(statement, files, draft),
            "resolv-file" => resolv_file(value, files, draft),
            "domain" => domain::take(statement, self.names, draft),
            "expand-hosts" | "local-ttl" | "port" | "listen-address" | "no-resolv" | "no-hosts" => {
            }
            "domain-needed" => draft.needs_dot = Some(place.to_owned()),
            "strict-order" => self.strategy = Some(Strategy::Ordered),
            "all-servers" => self.strategy = Some(Strategy::All),
            "min-cache-ttl" => ttl("min-ttl-secs", MIN_TTL_RANGE, statement, draft),
            "max-cache-ttl" | "max-ttl" => ttl("max-ttl-secs", MAX_TTL_RANGE, statement, draft),
            "stop-dns-rebind" => draft.set("policy", "block-private", true, place),
            "rebind-domain-ok" => {
                let names: Vec<String> = value.split('/').filter_map(name::domain).collect();
                draft.set("policy", "private-exceptions", names, place);
            }
            "filter-A" => filter(statement, "A", "0.0.0.0/0", draft),
            "filter-AAAA" => filter(statement, "AAAA", "::/0", draft),
            "bogus-nxdomain" => match value.parse() {
                Ok(ip) => self.bogus.push(ip),
                Err(_) => draft.note(statement, "only single addresses are converted"),
            },
            _ if records::take(statement, self.domains.all(), self.local_ttl, draft) => {}
            key if QUIET.contains(&key) => draft.quiet(key),
            key => {
                let reason = LEFT
                    .iter()
                    .find(|(start, _)| key.starts_with(start))
                    .map(|(_, reason)| *reason);
                draft.note(statement, reason.unwrap_or("no such setting in Avocet"));
            }
        }
    }

    /// Reads `address=/NAME/.../[ADDRESS]`, which covers the names and all names below them.
    fn address(&mut self, statement: &Statement, draft: &mut Draft) {
        let Some((names, target)) = domains(&statement.value) else {
            return draft.note(statement, "expected /NAME/ADDRESS");
        };
        let address = target.parse::<IpAddr>().ok();
        let is_block =
            target.is_empty() || target == "#" || address.is_some_and(|ip| ip.is_unspecified());
        for written in names {
            if written == "#" {
                draft.note(
                    statement,
                    "it means all names, and is not carried over: write a [[rule]] with when = \
                     'true'",
                );
                continue;
            }
            let Some(owner) =
                name::domain(written.trim_start_matches("*.")).filter(|owner| owner != ".")
            else {
                draft.note(statement, format!("{written:?} is not a name"));
                continue;
            };
            if is_block {
                self.by_nxdomain |= target.is_empty();
                self.by_zero |= !target.is_empty();
                self.blocked.push(owner);
                continue;
            }
            let Some(address) = address else {
                draft.note(statement, "expected an address");
                return;
            };
            for owner in [owner.clone(), format!("*.{owner}")] {
                let data = address.to_string();
                let rtype = address_type(address);
                let (ttl_secs, reverse) = (self.local_ttl, Reverse::Absent);
                draft.record(
                    Record { owner: &owner, rtype, data: &data, ttl_secs, reverse },
                    &statement.place,
                );
            }
            self.addressed.insert(owner.clone());
            self.answered.push(owner);
        }
    }

    /// Reads `server=[/NAME/.../]SERVER` and `local=/NAME/`.
    fn server(&mut self, statement: &Statement, draft: &mut Draft) {
        let place = statement.place.as_str();
        let Some((names, target)) = domains(&statement.value) else {
            note_interface(&statement.value, statement, draft);
            return draft.forward(".", without_interface(&statement.value), place);
        };
        note_interface(target, statement, draft);
        for zone in names {
            if zone.is_empty() {
                match target {
                    "" | "#" => {
                        draft.needs_dot = Some(place.to_owned()).filter(|_| target.is_empty())
                    }
                    server => draft.forward_dotless(without_interface(server), place),
                }
                continue;
            }
            if zone == "#" || zone.contains('*') {
                draft.note(statement, "rules apply to zones, not to name patterns");
                continue;
            }
            match target {
                "" => draft.local_zone(zone, place),
                "#" => draft.exception(zone, place),
                server => draft.forward(zone, without_interface(server), place),
            }
            self.answered.extend(name::domain(zone).filter(|_| !target.is_empty()));
        }
    }

    fn hosts(&mut self, statement: &Statement, files: &dyn Files, draft: &mut Draft) {
        let path = statement.value.as_str();
        let paths = match files.list(path) {
            Some(names) => {
                names.iter().map(|name| format!("{}/{name}", path.trim_end_matches('/'))).collect()
            }
            None => vec![path.to_owned()],
        };
        for path in paths {
            let text = source::octets(files, &path, MAX_TEXT)
                .and_then(|octets| source::text(&path, &octets));
            match text {
                Ok(text) => self.hosts_file(&path, &text, draft),
                Err(error) => draft.note(statement, error),
            }
        }
    }

    fn hosts_file(&mut self, path: &str, text: &str, draft: &mut Draft) {
        let (hosts, wrong) = hosts::hosts(text);
        draft.note_lines_left_out(path, text);
        for number in wrong {
            draft.note(format!("{path}:{number}"), "expected an address and a name");
        }
        for mut host in hosts {
            if self.names == Names::Expanded {
                self.domains.expand(&mut host);
            }
            draft.host(&host, self.local_ttl, path);
        }
    }

    /// Adds the settings that are known only at the end.
    fn close(self, draft: &mut Draft) {
        match self.strategy {
            Some(Strategy::Ordered) => draft.strategy(".", "ordered"),
            Some(Strategy::All) => {
                let count =
                    draft.forwards.get(".").map_or(0, |forward| forward.servers.len().min(8));
                if count > 1 {
                    draft.strategy(".", &format!("race {count}"));
                }
            }
            None => {}
        }
        if !self.bogus.is_empty() {
            let networks: Vec<String> = self.bogus.iter().map(|ip| format!("\"{ip}\"")).collect();
            let when = format!("answer.ip.in({})", networks.join(", "));
            draft.rule(Rule::block("bogus-nxdomain", when, "nxdomain", "bogus-nxdomain"));
        }
        self.note_hidden(draft);
        self.close_blocked(draft);
    }

    /// Adds a note for each server that dnsmasq uses for names below a name with an address. In
    /// Avocet, these names get the address, because records take precedence over servers.
    fn note_hidden(&self, draft: &mut Draft) {
        let mut hidden = Vec::new();
        for (zone, place) in draft
            .forwards
            .iter()
            .map(|(zone, forward)| (zone, &forward.origin))
            .chain(&draft.local_zones)
        {
            let mut above =
                std::iter::successors(zone.split_once('.'), |(_, up)| up.split_once('.'));
            if above.any(|(_, up)| self.addressed.contains(up)) && !self.addressed.contains(zone) {
                hidden.push(format!("{place}: {zone}"));
            }
        }
        for what in hidden {
            draft.note(what, "names in it have the address of the names above");
        }
    }

    fn close_blocked(self, draft: &mut Draft) {
        if self.blocked.is_empty() {
            return;
        }
        if self.by_nxdomain && self.by_zero {
            let reason = "all blocked names get the same response: `block-answer` is \"zero\"";
            draft.note("address=/NAME/ (NXDOMAIN) together with address=/NAME/0.0.0.0", reason);
        }
        let answer = if self.by_zero { "zero" } else { "nxdomain" };
        match draft.settings.get(&("policy", "block-answer")) {
            None => {
                draft.set("policy", "block-answer", answer, "response of dnsmasq for blocked names")
            }
            Some((set, _)) if set.as_str() == Some(answer) => {}
            Some(_) => {
                draft.note(
                    "names of address=/NAME/",
                    "all blocked names get the same response: that of the other lists",
                );
            }
        }
        let line = |name: &String| format!("address=/{name}/");
        let lines: Vec<String> = self.blocked.iter().map(line).collect();
        let list = draft.own_list(
            "dnsmasq blocked",
            "dnsmasq",
            ListKind::Block,
            &lines,
            "names that dnsmasq blocked",
        );
        draft.for_everybody.push(list);
        let blocked: HashSet<&str> = self.blocked.iter().map(String::as_str).collect();
        // dnsmasq prefers the most specific statement, but Avocet prefers to block.
        let is_below = |name: &&String| {
            let mut above = std::iter::successors(Some(name.as_str()), |name| {
                name.split_once('.').map(|(_, up)| up)
            });
            above.any(|up| blocked.contains(up))
        };
        let excepted: Vec<String> = self.answered.iter().filter(is_below).map(line).collect();
        if !excepted.is_empty() {
            let origin = "names below blocked names with their own answer or server";
            let list =
                draft.own_list("dnsmasq allowed", "dnsmasq", ListKind::Allow, &excepted, origin);
            draft.for_everybody.push(list);
        }
    }
}

/// Splits `/NAME/NAME/REST` into the names and the rest. Returns `None` if there are no names.
fn domains(value: &str) -> Option<(Vec<&str>, &str)> {
    let (names, rest) = value.strip_prefix('/')?.rsplit_once('/')?;
    Some((names.split('/').collect(), rest.trim()))
}

/// Returns a server without its interface or source address.
fn without_interface(server: &str) -> &str {
    server.split('@').next().unwrap_or(server)
}

/// Notes that a server was queried from a certain interface or address.
fn note_interface(server: &str, statement: &Statement, draft: &mut Draft) {
    if let Some((_, from)) = server.split_once('@') {
        draft.note(statement, format!("queries leave from any address, not only from {from}"));
    }
}

/// Reads `rev-server=NETWORK,SERVER`: the reverse names of a network.
fn rev_server(statement: &Statement, draft: &mut Draft) {
    match statement.value.split_once(',') {
        Some((network, server)) => {
            note_interface(server, statement, draft);
            reverse_names(network, without_interface(server), &statement.place, draft);
        }
        None => draft.note(statement, "expected NETWORK,SERVER"),
    }
}

/// Forwards the reverse names of a network to a server.
pub(crate) fn reverse_names(network: &str, server: &str, place: &str, draft: &mut Draft) {
    let parsed = network
        .trim()
        .parse::<IpNet>()
        .or_else(|_| network.trim().parse::<IpAddr>().map(IpNet::from));
    match parsed {
        Ok(network) => reverse::zones(network)
            .iter()
            .for_each(|zone| draft.forward(zone, server.trim(), place)),
        Err(_) => {
            draft.note(format!("{place}: {network}"), "expected a network such as 192.168.1.0/24")
        }
    }
}

fn resolv_file(path: &str, files: &dyn Files, draft: &mut Draft) {
    let text = source::octets(files, path, MAX_TEXT).and_then(|octets| source::text(path, &octets));
    let text = match text {
        Ok(text) => text,
        Err(error) => return draft.note(format!("resolv-file={path}"), error),
    };
    for (_, line) in source::lines(&text) {
        if let Some(server) = line.strip_prefix("nameserver ") {
            draft.forward(".", server.trim(), path);
        }
    }
}

/// Blocks answers of other servers with addresses of a type. Only a test of the answer leaves local
/// records of the type as they are, as dnsmasq does.
fn filter(statement: &Statement, rtype: &str, all: &str, draft: &mut Draft) {
    let when = format!("qtype == {rtype:?} && answer.ip.in({all:?})");
    draft.rule(Rule::block(&statement.key, when, "nodata", &statement.place));
}

/// Reads a bound of TTLs. `max-ttl` limits TTLs sent to clients, like `max-cache-ttl` of the cache,
/// so the lower of the two applies.
fn ttl(key: &'static str, range: (u64, u64), statement: &Statement, draft: &mut Draft) {
    let set = draft.settings.get(&("cache", key)).and_then(|(value, _)| value.as_integer());
    match statement.value.parse::<u64>() {
        Ok(secs)
            if set.is_some_and(|set| {
                key == "max-ttl-secs" && u64::try_from(set).is_ok_and(|set| set <= secs)
            }) => {}
        Ok(0) if key == "max-ttl-secs" => {}
        Ok(secs) => draft.set_within(("cache", key), secs, range, &statement.to_string()),
        Err(_) => draft.note(statement, "expected a number of seconds"),
    }
}
