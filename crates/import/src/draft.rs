//! The configuration under construction: the contributions of all sources, in the terms of
//! `avocet.toml`.
//!
//! A draft accepts only values that the configuration reader accepts. A refused value becomes a
//! note.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use avocet_policy::client::Id;
use avocet_wire::{Rtype, rdata};
use ipnet::{IpNet, Ipv6Net};
use toml::Value;

use crate::Known;
use crate::hosted::Hosted;
use crate::hosts::{self, Host};
use crate::name::{self, AssignedNames, ROOT};
use crate::records::{Checked, Records};
use crate::server::{NO_ADDRESS, Server};

/// Maximum number of notes that are kept. Further notes are counted.
const MAX_NOTES: usize = 1_000;
/// Maximum number of servers of one rule, as in the configuration reader.
const MAX_SERVERS: usize = 64;
/// Maximum number of servers of `bootstrap`, as in the configuration reader.
const MAX_BOOTSTRAP: usize = 8;
/// Maximum number of servers of a rule with the action `forward`.
const MAX_RULE_SERVERS: usize = 8;
/// Maximum number of responses per second of `[rate-limit]`, as in the configuration reader.
pub(crate) const MAX_LIMITED_RESPONSES: u64 = 8_387;
/// Longest TTL of a record, in seconds.
const MAX_TTL_SECS: u32 = 604_800;
/// TTL of records whose source sets none, in seconds.
pub(crate) const TTL_SECS: u32 = 300;

/// The default prefix of address translators (RFC 6052 §2.1).
const WELL_KNOWN_PREFIX: &str = "64:ff9b::/96";

/// The reason in a note about an unknown kind of answer to blocked names.
pub(crate) const UNKNOWN_BLOCK: &str =
    "unknown response for blocked names: they get the unspecified address";

/// The settings that were found.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The directory of companion files.
    pub(crate) directory: String,
    /// The services that `block-services` accepts.
    services: BTreeSet<String>,
    /// The time zones that `time-zone` accepts, in lower case.
    time_zones: HashSet<String>,
    /// Keys of tables that occur only once, such as `[cache]`. Each has its value and its origin in
    /// the source.
    pub(crate) settings: BTreeMap<(&'static str, &'static str), (Value, String)>,
    /// Servers that resolve the addresses of upstreams with only a name.
    pub(crate) bootstrap: Vec<Server>,
    /// Forwarding rules by zone.
    pub(crate) forwards: BTreeMap<String, Forward>,
    pub(crate) records: Records,
    pub(crate) lists: Vec<List>,
    pub(crate) groups: Vec<Group>,
    pub(crate) clients: Vec<Client>,
    pub(crate) rules: Vec<Rule>,
    /// Zones that are never forwarded, with the origin of each.
    pub(crate) local_zones: BTreeMap<String, String>,
    /// The setting of the source that forbids to forward names without a dot, if any.
    pub(crate) needs_dot: Option<String>,
    /// Servers for names without a dot.
    pub(crate) dotless: Option<Forward>,
    /// Identifiers of clients. Each belongs to one client only.
    ids: HashSet<String>,
    /// Companion files: name and text.
    pub(crate) files: Vec<(String, String)>,
    /// Hosted zones with their keys and other tables.
    pub(crate) hosted: Hosted,
    pub(crate) notes: Vec<String>,
    notes_over: usize,
    /// Names of settings without a counterpart that do not affect answers.
    quiet: BTreeSet<String>,
    /// Lists that apply to all clients, whatever their group.
    pub(crate) for_everybody: Vec<String>,
    list_names: AssignedNames,
    pub(crate) file_names: AssignedNames,
    rule_names: AssignedNames,
}

/// One `[[forward]]`.
#[derive(Debug, Default)]
pub(crate) struct Forward {
    pub(crate) origin: String,
    /// The servers of the zone; empty for an exception.
    pub(crate) servers: Vec<Server>,
    pub(crate) strategy: Option<String>,
}

/// A local record in the form of its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) owner: &'a str,
    pub(crate) rtype: &'a str,
    /// Presentation form.
    pub(crate) data: &'a str,
    /// The TTL in seconds, if the source sets one.
    pub(crate) ttl_secs: Option<u32>,
    pub(crate) reverse: Reverse,
}

/// Whether the reverse name of an address is answered as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reverse {
    Answered,
    Absent,
}

/// The purpose of a list: to block or to allow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ListKind {
    Block,
    Allow,
}

/// The location of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Url(String),
    File(String),
    /// A response policy zone with this name, from these servers.
    Primaries(String, Vec<String>),
}

/// One `[[list]]`.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) place: Place,
    pub(crate) format: &'static str,
    pub(crate) kind: ListKind,
    pub(crate) refresh_hours: Option<u64>,
    pub(crate) tags: Vec<String>,
    pub(crate) trust: Trust,
    pub(crate) purpose: Purpose,
}

/// Whether a list may answer with its own addresses and aliases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// The list may block and allow.
    Verdicts,
    /// The list belongs to the operator and may also rewrite.
    Answers,
}

/// The users of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Groups apply the list to their clients.
    Groups,
    /// Only conditions of rules refer to the list.
    Conditions,
}

/// One `[[group]]`.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) clients: Vec<String>,
    pub(crate) lists: Vec<String>,
}

/// One `[[client]]`.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) ids: Vec<String>,
    pub(crate) groups: Vec<String>,
}

/// One `[[rule]]`.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) when: String,
    pub(crate) action: &'static str,
    /// Keys that only some actions have.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl Draft {
    /// Creates an empty draft for a server that knows the names in `known`. Companion files will be
    /// in `directory`.
    pub(crate) fn within(directory: &str, known: Known<'_>) -> Self {
        let services = known.services.iter().map(|service| (*service).to_owned()).collect();
        let time_zones = known.time_zones.iter().map(|zone| zone.to_ascii_lowercase()).collect();
        Self { directory: directory.to_owned(), services, time_zones, ..Self::default() }
    }

    /// Reports whether there is a time zone with this name.
    pub(crate) fn has_time_zone(&self, name: &str) -> bool {
        self.time_zones.contains(&name.to_ascii_lowercase())
    }

    /// Notes that a setting is not converted, with the reason.
    pub(crate) fn note(&mut self, what: impl fmt::Display, reason: impl fmt::Display) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(one_line(&format!("{what}: {reason}")));
        } else {
            self.notes_over += 1;
        }
    }

    /// Records that a setting has no counterpart and does not affect answers.
    pub(crate) fn quiet(&mut self, setting: impl Into<String>) {
        if self.quiet.len() < MAX_NOTES {
            self.quiet.insert(one_line(&setting.into()));
        } else {
            self.notes_over += 1;
        }
    }

    /// Adds one note with all settings recorded by [`Draft::quiet`].
    pub(crate) fn note_quiet(&mut self) {
        let quiet: Vec<String> = std::mem::take(&mut self.quiet).into_iter().collect();
        if !quiet.is_empty() {
            self.note(
                quiet.join(", "),
                "no equivalent: they do not affect responses, or are the default behaviour",
            );
        }
    }

    /// Returns the number of notes that were not kept.
    pub(crate) fn notes_over(&self) -> usize {
        self.notes_over
    }

    /// Sets a key of a table that occurs only once in the configuration.
    pub(crate) fn set(
        &mut self,
        table: &'static str,
        key: &'static str,
        value: impl Into<Value>,
        origin: &str,
    ) {
        self.settings.insert((table, key), (value.into(), origin.to_owned()));
    }

    /// Sets a key to a number, which is clamped to a range. Adds a note if the number was outside
    /// of the range.
    pub(crate) fn set_within(
        &mut self,
        (table, key): (&'static str, &'static str),
        number: u64,
        range: (u64, u64),
        origin: &str,
    ) {
        let kept = number.clamp(range.0, range.1);
        if kept != number {
            self.note(
                format!("{origin} = {number}"),
                format!("`{key}` takes {} to {}: {kept} it is", range.0, range.1),
            );
        }
        self.set(table, key, i64::try_from(kept).unwrap_or(i64::MAX), origin);
    }

    /// Sets the listeners without duplicates.
    pub(crate) fn listen(&mut self, addresses: &[SocketAddr], origin: &str) {
        let mut listen: Vec<Value> = Vec::new();
        for address in addresses {
            let shown = Value::from(address.to_string());
            if !listen.contains(&shown) {
                listen.push(shown);
            }
        }
        if !listen.is_empty() {
            self.set("server", "listen", listen, origin);
        }
    }

    /// Enables DNS64 with the first valid prefix (RFC 6052 §2.2).
    pub(crate) fn dns64(&mut self, prefixes: &[String], origin: &str) {
        let mut chosen = None;
        for written in prefixes {
            match written.parse::<Ipv6Net>().map(|net| net.trunc()).ok().filter(is_translator) {
                Some(net) if chosen.is_none() => chosen = Some(net.to_string()),
                Some(_) => self.note(
                    format!("{origin}: {written}"),
                    "only one translator prefix is supported",
                ),
                None => {
                    self.note(format!("{origin}: {written}"), "not a translator prefix (RFC 6052)")
                }
            }
        }
        let prefix = match (chosen, prefixes) {
            (Some(prefix), _) => prefix,
            (None, []) => WELL_KNOWN_PREFIX.to_owned(),
            (None, _) => return,
        };
        self.set("dns64", "prefix", prefix, origin);
    }

    /// Forwards names under `zone` to a server.
    pub(crate) fn forward(&mut self, zone: &str, server: &str, origin: &str) {
        let what = format!("{origin}: {server}");
        let Some(zone) = name::domain(zone).filter(|zone| !zone.contains('*')) else {
            return self.note(what, format!("{zone:?} is not a zone name"));
        };
        let server = match Server::parse(server) {
            Ok(server) => server,
            Err(reason) => return self.note(what, reason),
        };
        if server.address().is_none() && self.bootstrap.is_empty() {
            return self.note(what, NO_ADDRESS);
        }
        let forward = self.forwards.entry(zone).or_insert_with(|| Forward::from(origin));
        if forward.servers.len() >= MAX_SERVERS {
            self.note(what, format!("a rule has {MAX_SERVERS} servers at most"));
        } else if !forward.servers.contains(&server) {
            forward.servers.push(server);
        }
    }

    /// Adds a server that resolves the addresses of upstreams with only a name.
    pub(crate) fn bootstrap(&mut self, server: &str, origin: &str) {
        let what = format!("{origin}: {server}");
        match Server::parse(server) {
            Err(reason) => self.note(what, reason),
            Ok(server) if !server.has_udp() => {
                self.note(what, "addresses of upstreams are queried in plain DNS");
            }
            Ok(_) if self.bootstrap.len() >= MAX_BOOTSTRAP => {
                self.note(what, format!("a rule has {MAX_BOOTSTRAP} such servers at most"));
            }
            Ok(server) => self.bootstrap.push(server),
        }
    }

    /// Drops the servers of `bootstrap` if every upstream has an address.
    pub(crate) fn drop_needless_bootstrap(&mut self, origin: &str) {
        let mut servers = self.forwards.values().flat_map(|forward| &forward.servers);
        if servers.all(|server| server.address().is_some()) {
            for server in std::mem::take(&mut self.bootstrap) {
                let what = format!("{origin}: {}", server.upstream());
                self.note(what, "not needed, because the servers have addresses");
            }
        }
    }

    /// Forwards names without a dot to a server.
    pub(crate) fn forward_dotless(&mut self, server: &str, origin: &str) {
        let what = format!("{origin}: {server}");
        match Server::parse(server) {
            Err(reason) => self.note(what, reason),
            Ok(server) if !server.has_udp() => {
                self.note(what, "rules use their servers over UDP only")
            }
            Ok(server) => {
                let dotless = self.dotless.get_or_insert_with(|| Forward::from(origin));
                if dotless.servers.len() < MAX_RULE_SERVERS && !dotless.servers.contains(&server) {
                    dotless.servers.push(server);
                }
            }
        }
    }

    /// Sets the order in which the servers of a zone are queried, if the zone has servers.
    pub(crate) fn strategy(&mut self, zone: &str, strategy: &str) {
        if let Some(forward) = self.forwards.get_mut(zone) {
            forward.strategy = Some(strategy.to_owned());
        }
    }

    /// Excludes names under `zone` from its forwarding rule, so that the rule of the zone above
    /// applies.
    pub(crate) fn exception(&mut self, zone: &str, origin: &str) {
        match name::domain(zone).filter(|zone| zone != "." && !zone.contains('*')) {
            Some(zone) => drop(self.forwards.entry(zone).or_insert_with(|| Forward::from(origin))),
            None => self.note(origin, format!("{zone:?} is not a zone name")),
        }
    }

    /// Makes names under `zone` be answered from local records only.
    pub(crate) fn local_zone(&mut self, zone: &str, origin: &str) {
        match name::domain(zone).filter(|zone| zone != "." && !zone.contains('*')) {
            Some(zone) => drop(self.local_zones.entry(zone).or_insert_with(|| origin.to_owned())),
            None => self.note(origin, format!("{zone:?} is not a zone name")),
        }
    }

    /// Adds a local record.
    pub(crate) fn record(&mut self, record: Record<'_>, origin: &str) {
        let Record { owner, rtype, data, ttl_secs, reverse } = record;
        let what = format!("{origin}: {owner} {rtype} {data}");
        let Some(owner) = name::domain(owner)
            .filter(|owner| owner != "." && !owner.trim_start_matches("*.").contains('*'))
        else {
            return self.note(
                what,
                "its name is not a valid domain name; write non-ASCII letters as xn-- labels",
            );
        };
        let known =
            rdata::from_mnemonic(rtype).filter(|number| *number != 0 && !Rtype(*number).is_meta());
        let Some(number) = known else {
            return self.note(what, "there is no such type of record");
        };
        // Normalises the type: TYPE1 is A, and both belong to one set.
        let rtype = rdata::mnemonic(number).unwrap_or(rtype);
        let mut wire = Vec::new();
        if let Err(error) = rdata::parse(number, data, ROOT, &mut wire) {
            return self.note(what, error);
        }
        if self.records.stands_beside_alias(&owner, rtype, &wire) {
            return self.note(what, "a name with a CNAME has no other records (RFC 1034)");
        }
        let ttl_secs = ttl_secs.map(|secs| secs.min(MAX_TTL_SECS));
        self.records.add(Checked { owner, rtype, data, wire, ttl_secs, reverse }, origin);
    }

    /// Adds the record of an address, with a reverse name.
    pub(crate) fn address(
        &mut self,
        owner: &str,
        address: IpAddr,
        ttl_secs: Option<u32>,
        origin: &str,
    ) {
        let data = address.to_string();
        let rtype = address_type(address);
        self.record(
            Record { owner, rtype, data: &data, ttl_secs, reverse: Reverse::Answered },
            origin,
        );
    }

    /// Adds the records of a line of a hosts file. The server answers names of loopback addresses
    /// without records.
    pub(crate) fn host(&mut self, host: &Host, ttl_secs: Option<u32>, origin: &str) {
        for name in &host.names {
            if hosts::is_loopback(name) || host.address.is_multicast() {
                continue;
            }
            self.address(name, host.address, ttl_secs, origin);
        }
    }

    /// Adds a list and returns its unique name.
    pub(crate) fn list(&mut self, wanted: &str, mut list: List) -> String {
        list.name = self.list_names.unique(name::slug(wanted, "list"));
        let name = list.name.clone();
        self.lists.push(list);
        name
    }

    /// Adds a companion file with these lines, and a list that reads the file. Returns the name of
    /// the list.
    pub(crate) fn own_list(
        &mut self,
        wanted: &str,
        format: &'static str,
        kind: ListKind,
        lines: &[String],
        origin: &str,
    ) -> String {
        let file = self.file_names.unique(name::slug(wanted, "rules"));
        let place = Place::File(format!("{}{file}.txt", self.directory));
        let head = format!("# {}\n", one_line(origin));
        let body: String = lines.iter().map(|line| format!("{}\n", one_line(line))).collect();
        self.files.push((format!("{file}.txt"), head + &body));
        // Lists in these formats can contain answers. They are trusted, because the operator wrote
        // the lines.
        let trust = match format {
            "adblock" | "pihole-regex" => Trust::Answers,
            _ => Trust::Verdicts,
        };
        self.list(wanted, List { format, kind, trust, ..List::at(place, origin) })
    }

    /// Adds a companion file like [`Draft::own_list`], but for a list that only conditions use.
    pub(crate) fn condition_list(
        &mut self,
        wanted: &str,
        lines: &[String],
        origin: &str,
    ) -> String {
        let name = self.own_list(wanted, "adblock", ListKind::Block, lines, origin);
        if let Some(list) = self.lists.last_mut() {
            (list.purpose, list.trust) = (Purpose::Conditions, Trust::Verdicts);
        }
        name
    }

    /// Returns the lists that groups may apply to their clients.
    pub(crate) fn lists_for_groups(&self) -> Vec<String> {
        let lists = self.lists.iter().filter(|list| list.purpose == Purpose::Groups);
        lists.map(|list| list.name.clone()).collect()
    }

    /// Returns the policy zones with their own actions, in the order of precedence.
    pub(crate) fn acting_zones(&self) -> Vec<String> {
        let is_acting = |list: &&List| list.format == "rpz" && list.purpose == Purpose::Groups;
        self.lists.iter().filter(is_acting).map(|list| list.name.clone()).collect()
    }

    /// Adds a rule under a unique name.
    pub(crate) fn rule(&mut self, mut rule: Rule) {
        rule.name = self.rule_names.unique(name::slug(&rule.name, "rule"));
        self.rules.push(rule);
    }

    /// Returns an identifier of a client in the form of `ids`: an address, a network, a MAC address
    /// or a host name.
    pub(crate) fn client_id(&mut self, written: &str, origin: &str) -> Option<String> {
        let what = format!("{origin}: {written}");
        let Some(id) = client_id(written.trim()) else {
            self.note(what, "clients are identified by address, network, MAC address or host name");
            return None;
        };
        if !self.ids.insert(id.clone()) {
            self.note(what, "it belongs to another client already");
            return None;
        }
        Some(id)
    }

    /// Converts a device identifier, which a client sends over TLS, HTTPS or QUIC, to its form in
    /// `ids`. Adds a note and returns `None` if the text is not a valid identifier.
    pub(crate) fn device_word(&mut self, written: &str, origin: &str) -> Option<String> {
        let what = format!("{origin}: {written}");
        let word = written.trim().to_ascii_lowercase();
        let id = format!("id:{word}");
        if !matches!(id.parse(), Ok(Id::Device(_))) {
            self.note(what, "neither an address nor a word that a device can send");
            return None;
        }
        if !self.ids.insert(id.clone()) {
            self.note(what, "it belongs to another client already");
            return None;
        }
        self.note(
            what,
            "known by this word over TLS, HTTPS and QUIC only: they need a certificate",
        );
        Some(id)
    }

    /// Returns the known services, and adds a note for each unknown one.
    pub(crate) fn services(&mut self, wanted: Vec<String>, origin: &str) -> Vec<String> {
        let (known, unknown): (Vec<String>, _) =
            wanted.into_iter().partition(|id| self.services.contains(id));
        for id in unknown {
            self.note(format!("{origin}: {id}"), "Avocet has no service of that name");
        }
        known
    }

    /// Notes the lines of a text that are omitted because of their length or number.
    pub(crate) fn note_lines_left_out(&mut self, path: &str, text: &str) {
        let count = crate::source::lines_left_out(text);
        if count > 0 {
            self.note(format!("{path}: {count} lines"), "too many lines, or a line without end");
        }
    }
}

impl Forward {
    fn from(origin: &str) -> Self {
        Self { origin: origin.to_owned(), ..Self::default() }
    }
}

impl List {
    /// Creates a block list whose format is detected.
    pub(crate) fn at(place: Place, origin: &str) -> Self {
        Self {
            name: String::new(),
            origin: origin.to_owned(),
            place,
            format: "auto",
            kind: ListKind::Block,
            refresh_hours: None,
            tags: Vec::new(),
            trust: Trust::Verdicts,
            purpose: Purpose::Groups,
        }
    }
}

impl Rule {
    /// Creates a rule that blocks names. Unless `answer` is empty, the rule has its own answer.
    pub(crate) fn block(name: &str, when: String, answer: &'static str, origin: &str) -> Self {
        let more =
            if answer.is_empty() { Vec::new() } else { vec![("answer", Value::from(answer))] };
        Self { more, ..Self::doing("block", name, when, origin) }
    }

    /// Creates a rule with an action other than `block`.
    pub(crate) fn doing(action: &'static str, name: &str, when: String, origin: &str) -> Self {
        Self { name: name.to_owned(), origin: origin.to_owned(), when, action, more: Vec::new() }
    }

    /// Returns the rule with an additional key.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((key, value.into()));
        self
    }
}

impl Place {
    /// Parses the location of a list: a URL or a path.
    pub(crate) fn parse(written: &str) -> Option<Self> {
        let written = written.trim();
        if written.is_empty() || written.contains(char::is_whitespace) {
            return None;
        }
        if written.starts_with("https://") || written.starts_with("http://") {
            return Some(Self::Url(written.to_owned()));
        }
        let path = written.strip_prefix("file://").unwrap_or(written);
        path.starts_with('/').then(|| Self::File(path.to_owned()))
    }

    /// Returns a short name for the list.
    pub(crate) fn short(&self) -> &str {
        let (Self::Url(text) | Self::File(text) | Self::Primaries(text, _)) = self;
        let path = text.split(['?', '#']).next().unwrap_or(text).trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// Normalises an identifier of a client, so that equivalent identifiers become equal.
fn client_id(written: &str) -> Option<String> {
    if let Ok(address) = written.parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    if let Ok(network) = written.parse::<IpNet>() {
        return Some(network.trunc().to_string());
    }
    let octets: Vec<&str> = written.split([':', '-']).collect();
    let is_octet = |part: &&str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
    if octets.len() == 6 && octets.iter().all(is_octet) {
        return Some(octets.join(":").to_ascii_lowercase());
    }
    // A name with a numeric last label is a mistyped address.
    let is_host = |name: &String| {
        let last = name.rsplit('.').next().unwrap_or_default();
        !name.contains('*') && last.contains(|c: char| !c.is_ascii_digit())
    };
    name::domain(written).filter(|name| name != ".").filter(is_host)
}

/// Reports whether DNS64 can use the prefix (RFC 6052 §2.2).
fn is_translator(net: &Ipv6Net) -> bool {
    let [.., unused, _, _, _, _, _, _, _] = net.addr().octets();
    matches!(net.prefix_len(), 32 | 40 | 48 | 56 | 64 | 96) && unused == 0
}

/// Returns the type of an address record.
pub(crate) fn address_type(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}

/// Replaces line breaks and other control characters, which comments and notes must not contain.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
