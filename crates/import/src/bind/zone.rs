//! The `zone` statements.

use std::collections::{BTreeMap, HashMap};

use avocet_wire::DNS_PORT;

use crate::hosted::{ArrayTable, zone_name};
use crate::networks::Networks;

use super::reader::BindReader;
use super::scope::View;
use super::statement::{Statement, last};

/// Settings of zones that are read.
const READ: &[&str] = &[
    "allow-query",
    "allow-transfer",
    "allow-update",
    "also-notify",
    "auto-dnssec",
    "dnssec-policy",
    "file",
    "forward",
    "forwarders",
    "in-view",
    "key-directory",
    "masters",
    "notify",
    "primaries",
    "server-addresses",
    "server-names",
    "type",
    "update-policy",
];
/// Settings of zones that do not affect answers, or whose usual value is what Avocet does anyway.
const QUIET: &[&str] = &[
    "check-dup-records",
    "check-integrity",
    "check-mx",
    "check-mx-cname",
    "check-names",
    "check-sibling",
    "check-spf",
    "check-srv-cname",
    "check-svcb",
    "check-wildcard",
    "dnssec-loadkeys-interval",
    "dnssec-secure-to-insecure",
    "inline-signing",
    "ixfr-from-differences",
    "journal",
    "masterfile-style",
    "max-ixfr-ratio",
    "max-journal-size",
    "max-refresh-time",
    "max-retry-time",
    "max-transfer-idle-in",
    "max-transfer-idle-out",
    "max-transfer-time-in",
    "max-transfer-time-out",
    "min-refresh-time",
    "min-retry-time",
    "multi-master",
    "notify-delay",
    "notify-to-soa",
    "parental-agents",
    "checkds",
    "provide-ixfr",
    "request-expire",
    "request-ixfr",
    "sig-validity-interval",
    "try-tcp-refresh",
    "zone-statistics",
    "zero-no-soa-ttl",
];

/// A zone of one or more views.
pub(super) struct BuiltZone {
    pub(super) name: String,
    pub(super) table: ArrayTable,
    /// The name of the first view that has the zone, in lower case.
    pub(super) first_view: String,
    /// The positions of the views that have the zone, with the clients that may query its names in
    /// each of them.
    pub(super) views: BTreeMap<usize, Networks>,
    /// Whether the zone is transferred from other servers.
    pub(super) is_secondary: bool,
    /// The clients that may query names of the zone in the view that defines it.
    pub(super) clients: Networks,
}

/// The zones that were read so far.
#[derive(Default)]
pub(super) struct BuiltZones {
    pub(super) list: Vec<BuiltZone>,
    by_name: HashMap<String, Vec<usize>>,
}

impl BuiltZones {
    pub(super) fn push(&mut self, zone: BuiltZone) {
        self.by_name.entry(zone.name.clone()).or_default().push(self.list.len());
        self.list.push(zone);
    }

    /// Returns the first zone with this name that passes the test.
    pub(super) fn find(
        &mut self,
        name: &str,
        is_one: impl Fn(&BuiltZone) -> bool,
    ) -> Option<&mut BuiltZone> {
        let all = self.by_name.get(name)?;
        let at = *all.iter().find(|at| self.list.get(**at).is_some_and(&is_one))?;
        self.list.get_mut(at)
    }
}

/// The types of a `zone` statement.
pub(super) enum ZoneKind {
    Hosted(Box<BuiltZone>),
    /// A zone that another view defines (`in-view`).
    InView {
        zone: String,
        view: String,
    },
    /// A zone of any other type, which is already converted or noted.
    Other,
}

impl<'r> BindReader<'r> {
    /// Reads a `zone` statement of a view.
    pub(super) fn zone(&mut self, zone: &'r Statement, view: &View<'r>) -> ZoneKind {
        let Some(name) = zone.word(1).and_then(zone_name) else {
            self.draft.note(zone, "its name is not supported");
            return ZoneKind::Other;
        };
        if zone.word(2).is_some_and(|class| !class.eq_ignore_ascii_case("in")) {
            self.draft.note(zone, "only the class IN has zones");
            return ZoneKind::Other;
        }
        let block = zone.block();
        let kind = last(block, "type").and_then(|inner| inner.word(1)).unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        let is_transferred = matches!(kind.as_str(), "secondary" | "slave" | "mirror");
        for inner in block {
            match inner.key().as_str() {
                key if READ.contains(&key) => {}
                key if QUIET.contains(&key) => self.draft.quiet(format!("zone: {key}")),
                "masterfile-format" if is_transferred || inner.word(1) == Some("text") => {}
                _ => self.draft.note(inner, "no equivalent for a zone"),
            }
        }
        if let Some(view) = last(block, "in-view").and_then(|inner| inner.word(1)) {
            return ZoneKind::InView { zone: name, view: view.to_ascii_lowercase() };
        }
        match kind.as_str() {
            // PowerDNS uses the word `native` for a zone that it does not announce.
            "primary" | "master" | "native" => self.primary_zone(name, zone, view),
            "secondary" | "slave" => self.secondary_zone(name, zone, view),
            "mirror" if name == "." => {
                self.draft.set("resolver", "local-root", true, &zone.place());
                ZoneKind::Other
            }
            "mirror" => {
                self.draft.note(zone, "it becomes a hosted zone: its answers have no AD");
                self.secondary_zone(name, zone, view)
            }
            "hint" => {
                self.hints(zone);
                ZoneKind::Other
            }
            "forward" => {
                self.forwarders(&name, zone, block, view);
                ZoneKind::Other
            }
            "stub" => {
                self.stub(&name, zone, &["primaries", "masters"]);
                ZoneKind::Other
            }
            "static-stub" => {
                self.stub(&name, zone, &["server-addresses"]);
                if let Some(names) = last(block, "server-names") {
                    self.draft.note(names, "servers of a `[[stub]]` have addresses");
                }
                ZoneKind::Other
            }
            kind => {
                self.draft.note(zone, format!("there are no zones of the type {kind:?}"));
                ZoneKind::Other
            }
        }
    }

    fn built(
        &mut self,
        name: String,
        zone: &'r Statement,
        view: &View<'r>,
        table: ArrayTable,
    ) -> BuiltZone {
        let query = view.find_for(zone.block(), &["allow-query"]);
        let clients = match query {
            Some(query) => self.askers(query),
            None => Networks::any(),
        };
        let first_view = view.name.unwrap_or_default().to_ascii_lowercase();
        BuiltZone { name, table, first_view, views: BTreeMap::new(), is_secondary: false, clients }
    }

    /// Returns the networks of an access list. Adds a note if the list also has keys.
    pub(super) fn askers(&mut self, statement: &'r Statement) -> Networks {
        let clients = self.clients(statement.block(), statement);
        if !clients.keys.is_empty() {
            self.note_here(statement, "clients that ask are known by address, not by key");
        }
        clients.networks
    }

    fn primary_zone(&mut self, name: String, zone: &'r Statement, view: &View<'r>) -> ZoneKind {
        let block = zone.block();
        let Some(file) = last(block, "file").and_then(|file| file.word(1)) else {
            self.draft.note(zone, "a zone without a file");
            return ZoneKind::Other;
        };
        let path = self.path(file);
        let mut table = ArrayTable::of("zone", zone.place());
        table.set("name", name.as_str());
        table.set("file", path.as_str());
        self.allow_transfer(block, view, &mut table);
        self.notify(block, view, &mut table);
        self.allow_update(block, view, &mut table);
        self.sign(&name, zone, view, &mut table);
        let (directory, own) = path.rsplit_once('/').unwrap_or(("", &path));
        let journal = format!("{own}.jnl");
        if self.has_file(directory, |name| name == journal) {
            let reason = format!(
                "{path}.jnl may have changes that are not in the file: run `rndc sync` before the \
                 import"
            );
            self.draft.note(zone, reason);
        }
        ZoneKind::Hosted(Box::new(self.built(name, zone, view, table)))
    }

    fn secondary_zone(&mut self, name: String, zone: &'r Statement, view: &View<'r>) -> ZoneKind {
        let block = zone.block();
        let mut table = ArrayTable::of("zone", zone.place());
        table.set("name", name.as_str());
        if !self.primaries(block, &mut table) {
            self.draft.note(zone, "a zone of another server without the address of one");
            return ZoneKind::Other;
        }
        self.allow_transfer(block, view, &mut table);
        self.notify(block, view, &mut table);
        self.sign(&name, zone, view, &mut table);
        let update = ["allow-update", "allow-update-forwarding"];
        if let Some(update) = update.iter().find_map(|key| last(block, key)) {
            self.draft.note(update, "updates are not passed on to primaries");
        }
        let zone = self.built(name, zone, view, table);
        ZoneKind::Hosted(Box::new(BuiltZone { is_secondary: true, ..zone }))
    }

    /// Reads the hints of the root. The root servers of the Internet are built in and need no
    /// hints.
    fn hints(&mut self, zone: &Statement) {
        let Some(file) = last(zone.block(), "file").and_then(|file| file.word(1)) else { return };
        let path = self.path(file);
        let is_public = match self.files.read(&path, crate::source::MAX_TEXT) {
            Ok(octets) => {
                let text = String::from_utf8_lossy(&octets).to_ascii_lowercase();
                ["a.root-servers.net", "m.root-servers.net"].iter().all(|name| text.contains(name))
            }
            Err(_) => ["root.hints", "db.root", "named.ca", "named.root", "root.zone"]
                .iter()
                .any(|usual| path.ends_with(usual)),
        };
        match is_public {
            true => self.draft.quiet("zone \".\" of type hint"),
            false => self.draft.set("resolver", "root-hints", path, &zone.place()),
        }
    }

    /// Forwards queries for names of a zone to the `forwarders` of a block.
    pub(super) fn forwarders(
        &mut self,
        zone: &str,
        place: &Statement,
        block: &'r [Statement],
        view: &View<'r>,
    ) {
        let Some(statement) = last(block, "forwarders") else { return };
        let origin = statement.place();
        if let Some(first) = last(block, "forward").filter(|one| one.word(1) == Some("first")) {
            let reason =
                "if the servers fail, so does the query: it is not resolved in another way";
            self.draft.note(first, reason);
        }
        if statement.block().is_empty() {
            return self.without_forwarders(zone, place, &origin);
        }
        if view.name.is_some() {
            if self.draft.forwards.get(zone).is_some_and(|set| set.origin != origin) {
                let reason = "names have the same servers for all views: those of the first one";
                return self.draft.note(statement, reason);
            }
            self.draft.note(statement, "it applies to the clients of all views");
        }
        for remote in self.remotes(statement) {
            let server = match remote.tls() {
                Some(_) => format!("tls://{}", remote.at),
                None if remote.at.port() == DNS_PORT => remote.at.ip().to_string(),
                None => remote.at.to_string(),
            };
            if remote.tls().is_some() {
                let reason = "its certificate must be for its address, or write tls://NAME@ADDRESS";
                self.draft.note(statement, reason);
            }
            self.draft.forward(zone, &server, &origin);
        }
        self.draft.strategy(zone, "fastest");
    }

    /// Excepts a zone with an empty list of `forwarders` from forwarding, if it is not forwarded by
    /// another view. `place` is the zone, or the list for all names.
    fn without_forwarders(&mut self, zone: &str, place: &Statement, origin: &str) {
        let is_for_all = self.draft.forwards.contains_key(".");
        if zone != "." && !self.draft.forwards.contains_key(zone) {
            self.draft.exception(zone, origin);
        }
        if is_for_all || self.draft.forwards.get(zone).is_some_and(|one| !one.servers.is_empty()) {
            let reason = match zone {
                "." => "the servers for all names apply to the clients of all views",
                _ => "names below it follow the servers for all names",
            };
            self.draft.note(place, reason);
        }
    }

    /// Writes a `[[stub]]` with the servers that a setting lists.
    fn stub(&mut self, name: &str, zone: &'r Statement, keys: &[&str]) {
        let Some(statement) = keys.iter().find_map(|key| last(zone.block(), key)) else { return };
        let servers: Vec<String> = self
            .remotes(statement)
            .into_iter()
            .map(|one| super::reader::Remote { key: None, tls: None, ..one }.plain())
            .collect();
        if servers.is_empty() {
            return self.draft.note(zone, "it has no servers with addresses");
        }
        if self.draft.hosted.has("stub", name) {
            return self.draft.note(zone, "names have the same servers for all views");
        }
        let mut table = ArrayTable::of("stub", zone.place());
        table.set("zone", name);
        table.set("servers", servers);
        self.draft.hosted.add(table);
    }
}
