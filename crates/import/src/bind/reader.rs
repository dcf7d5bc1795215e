//! The named definitions in `named.conf`: access lists, keys, lists of servers, TLS settings. The
//! reader resolves references to them.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use avocet_wire::DNS_PORT;

use crate::draft::Draft;
use crate::hosted::{self, SharedKey, zone_name};
use crate::networks::Networks;
use crate::source::Files;

use super::statement::{Item, Statement, beside, last};

/// Maximum number of elements of one list.
const MAX_ELEMENTS: usize = 4_096;
/// Maximum nesting depth of server lists that refer to each other by name.
const MAX_REFERENCES: usize = 16;

/// Clients that an access list admits.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    pub(super) networks: Networks,
    /// Keys that grant access, each with the networks from which it is accepted. `None` means all
    /// networks.
    pub(super) keys: Vec<(Option<Networks>, String)>,
}

/// A server that sends zone transfers or receives messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Remote {
    pub(super) at: SocketAddr,
    pub(super) key: Option<String>,
    /// The name of the server's `tls` statement.
    pub(super) tls: Option<String>,
}

/// The definitions and the draft.
pub(super) struct BindReader<'r> {
    pub(super) files: &'r dyn Files,
    pub(super) draft: &'r mut Draft,
    /// The directory to which relative paths refer.
    pub(super) directory: String,
    acls: HashMap<String, &'r Statement>,
    /// Access lists with their clients; `None` while they are being resolved.
    resolved: HashMap<String, Option<Clients>>,
    keys: HashMap<String, &'r Statement>,
    /// The keys that were used. The value is `false` if a key cannot be written.
    used: HashMap<String, bool>,
    servers: HashMap<String, &'r Statement>,
    pub(super) tls: HashMap<String, &'r Statement>,
    pub(super) policies: HashMap<String, &'r Statement>,
    /// The keys from `server` statements, by the address of the server.
    key_of: HashMap<IpAddr, String>,
    listed: HashMap<String, Vec<String>>,
    /// Number of elements of server lists that were read for the current statement.
    steps: usize,
    /// The notes that were already written and are not repeated.
    noted: HashSet<&'static str>,
    noted_here: HashSet<(String, &'static str)>,
    /// The clients of the lists that were read before, by the address of each list in memory.
    lists: HashMap<usize, Clients>,
}

impl<'r> BindReader<'r> {
    /// Collects the definitions of a configuration. `outer` contains the top-level statements and
    /// those in views.
    pub(super) fn of(
        outer: impl Iterator<Item = &'r Statement>,
        files: &'r dyn Files,
        draft: &'r mut Draft,
    ) -> Self {
        let mut reader = Self {
            files,
            draft,
            directory: String::new(),
            acls: HashMap::new(),
            resolved: HashMap::new(),
            keys: HashMap::new(),
            used: HashMap::new(),
            servers: HashMap::new(),
            tls: HashMap::new(),
            policies: HashMap::new(),
            key_of: HashMap::new(),
            listed: HashMap::new(),
            steps: 0,
            noted: HashSet::new(),
            noted_here: HashSet::new(),
            lists: HashMap::new(),
        };
        for statement in outer {
            let Some(name) = statement.word(1) else { continue };
            let name = name.to_ascii_lowercase();
            let definitions = match statement.key().as_str() {
                "acl" => &mut reader.acls,
                "key" => {
                    let Some(name) = zone_name(&name) else { continue };
                    reader.keys.insert(name, statement);
                    continue;
                }
                "primaries" | "masters" | "remote-servers" | "parental-agents" => {
                    &mut reader.servers
                }
                "tls" => &mut reader.tls,
                "dnssec-policy" if statement.has_block() => &mut reader.policies,
                "server" => {
                    reader.server(statement, &name);
                    continue;
                }
                _ => continue,
            };
            definitions.insert(name, statement);
        }
        reader
    }

    /// Reads the key from a `server` statement.
    fn server(&mut self, statement: &Statement, address: &str) {
        for inner in statement.block() {
            let address = address.parse::<IpAddr>().ok();
            let key = inner.word(1).or_else(|| inner.block().first()?.word(0)).and_then(zone_name);
            match (inner.key().as_str(), address, key) {
                ("keys", Some(address), Some(key)) => drop(self.key_of.insert(address, key)),
                (
                    "edns" | "edns-udp-size" | "max-udp-size" | "provide-ixfr" | "request-ixfr"
                    | "request-nsid" | "send-cookie" | "transfer-format" | "transfers"
                    | "request-expire" | "edns-version" | "padding" | "tcp-keepalive",
                    ..,
                ) => {
                    self.draft.quiet(format!("server: {}", inner.key()));
                }
                ("bogus", ..) if inner.flag() == Some(false) => {}
                _ => self.draft.note(inner, "no equivalent for single servers"),
            }
        }
    }

    /// Adds a note once about a setting that many zones may inherit.
    pub(super) fn note_here(&mut self, statement: &Statement, reason: &'static str) {
        if self.noted_here.insert((statement.place(), reason)) {
            self.draft.note(statement, reason);
        }
    }

    /// Adds a note unless it was added before.
    pub(super) fn note_once(&mut self, what: &'static str, reason: &str) {
        if self.noted.insert(what) {
            self.draft.note(what, reason);
        }
    }

    /// Returns the absolute path of a file.
    pub(super) fn path(&self, written: &str) -> String {
        beside(&self.directory, written)
    }

    /// Returns whether a directory has a file that passes a test.
    pub(super) fn has_file(&mut self, directory: &str, is_one: impl Fn(&str) -> bool) -> bool {
        let files = self.files;
        let list = || files.list(directory).unwrap_or_default();
        let names = self.listed.entry(directory.to_owned()).or_insert_with(list);
        names.iter().any(|name| is_one(name))
    }

    /// Returns the clients of an access list. Many zones may inherit the same list, so each list is
    /// read only once.
    pub(super) fn clients(&mut self, list: &'r [Statement], what: &'r Statement) -> Clients {
        let address = list.as_ptr().addr();
        if let Some(clients) = self.lists.get(&address).filter(|_| !list.is_empty()) {
            return clients.clone();
        }
        let clients = self.first_match(list, what);
        self.lists.insert(address, clients.clone());
        clients
    }

    fn first_match(&mut self, list: &'r [Statement], what: &'r Statement) -> Clients {
        let mut found = Clients::default();
        if list.len() > MAX_ELEMENTS {
            self.draft.note(what, format!("more than {MAX_ELEMENTS} elements: nobody is admitted"));
            return found;
        }
        let (mut decided, mut denied) = (Networks::default(), Networks::default());
        for element in list {
            let is_negated = element.word(0) == Some("!");
            let items = element.items.get(usize::from(is_negated)..).unwrap_or_default();
            let inner = self.element(items, element);
            let known = inner.networks.without(&decided);
            let rest = Networks::any().without(&denied);
            let (Some(fresh), Some(rest)) = (known, rest) else {
                self.draft.note(element, "too many networks: nobody else is admitted");
                return found;
            };
            match is_negated {
                true if !inner.keys.is_empty() => {
                    self.draft.note(element, "exceptions are for addresses only");
                }
                true => denied = denied.with(&fresh),
                false => {
                    found.networks = found.networks.with(&fresh);
                    for (within, key) in inner.keys {
                        let within = match within {
                            Some(within) => Some(within.within(&rest)),
                            // A client with an admitted address needs no key.
                            None => (!denied.is_empty()).then(|| rest.clone()),
                        };
                        found.keys.push((within, key));
                    }
                }
            }
            decided = decided.with(&inner.networks);
        }
        found
    }

    fn element(&mut self, items: &'r [Item], what: &'r Statement) -> Clients {
        let of = |networks| Clients { networks, keys: Vec::new() };
        match items {
            [Item::Block(block)] => self.clients(block, what),
            [Item::Word(word), Item::Word(key) | Item::Quoted(key)]
                if word.eq_ignore_ascii_case("key") =>
            {
                let key = self.key(key, what);
                Clients { keys: key.into_iter().map(|key| (None, key)).collect(), ..of_none() }
            }
            [Item::Word(text) | Item::Quoted(text)] => match text.to_ascii_lowercase().as_str() {
                "any" => of(Networks::any()),
                "none" => of_none(),
                "localnets" => of(Networks::local()),
                "localhost" => {
                    let nets = ["127.0.0.0/8", "::1/128"].map(|net| net.parse().map(Networks::of));
                    of(nets
                        .into_iter()
                        .flatten()
                        .fold(Networks::default(), |all, one| all.with(&one)))
                }
                text => match network(text) {
                    Some(net) => of(Networks::of(net)),
                    None => self.acl(text, what),
                },
            },
            _ => {
                self.draft.note(what, "clients are addresses, networks, keys or lists of these");
                of_none()
            }
        }
    }

    fn acl(&mut self, name: &str, what: &Statement) -> Clients {
        match self.resolved.get(name) {
            Some(Some(clients)) => return clients.clone(),
            Some(None) => {
                self.draft.note(what, format!("the acl {name:?} contains itself"));
                return of_none();
            }
            None => {}
        }
        let Some(acl) = self.acls.get(name).copied() else {
            self.draft.note(what, format!("there is no acl {name:?}"));
            return of_none();
        };
        self.resolved.insert(name.to_owned(), None);
        let clients = self.clients(acl.block(), acl);
        self.resolved.insert(name.to_owned(), Some(clients.clone()));
        clients
    }

    /// Returns the name of a key, and writes the key at its first use. A key that cannot be used is
    /// noted once.
    pub(super) fn key(&mut self, written: &str, what: &Statement) -> Option<String> {
        let name = zone_name(written).unwrap_or_default();
        if let Some(is_usable) = self.used.get(&name) {
            return is_usable.then_some(name);
        }
        let Some(statement) = self.keys.get(&name).copied() else {
            self.draft.note(what, format!("there is no key {written:?}"));
            return None;
        };
        let value = |key| last(statement.block(), key).and_then(|found| found.word(1));
        let algorithm = value("algorithm").and_then(hosted::algorithm);
        let secret = value("secret").filter(|secret| hosted::is_secret(secret));
        let is_usable = match (algorithm, secret) {
            (Some(algorithm), Some(secret)) => {
                let place = statement.place();
                self.draft.key(&SharedKey { name: &name, algorithm, secret }, &place);
                true
            }
            (None, _) => {
                self.draft.note(statement, "its algorithm is not supported");
                false
            }
            (_, None) => {
                self.draft.note(statement, "its secret is not 8 to 512 octets in base64");
                false
            }
        };
        self.used.insert(name.clone(), is_usable);
        is_usable.then_some(name)
    }

    /// Returns the names of the keys that no setting uses.
    pub(super) fn unused_keys(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.keys.keys().filter(|name| !self.used.contains_key(*name)).cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the servers of a list such as `primaries`, `also-notify` or `forwarders`.
    pub(super) fn remotes(&mut self, statement: &Statement) -> Vec<Remote> {
        let mut found = Vec::new();
        self.steps = 0;
        self.add_remotes(statement, &Remote::default_of(statement), 0, &mut found);
        found
    }

    fn add_remotes(
        &mut self,
        statement: &Statement,
        usual: &Remote,
        depth: usize,
        found: &mut Vec<Remote>,
    ) {
        for element in statement.block() {
            self.steps += 1;
            if self.steps == MAX_ELEMENTS {
                self.draft.note(element, format!("more than {MAX_ELEMENTS} servers"));
            }
            if self.steps >= MAX_ELEMENTS {
                return;
            }
            let Some(word) = element.word(0) else { continue };
            let own = Remote::default_of(element);
            let port = if own.at.port() == 0 { usual.at.port() } else { own.at.port() };
            let written_key = own.key.or_else(|| usual.key.clone());
            let tls = own.tls.or_else(|| usual.tls.clone());
            if let Ok(address) = word.parse::<IpAddr>() {
                let written_key = written_key.or_else(|| self.key_of.get(&address).cloned());
                let needs_key = written_key.is_some();
                let key = written_key.and_then(|key| self.key(&key, element));
                if key.is_none() && needs_key {
                    self.draft.note(element, "it is left out, because its key is missing");
                    continue;
                }
                let port = match port {
                    0 if tls.as_deref().is_some_and(|tls| tls != "none") => 853,
                    0 => DNS_PORT,
                    port => port,
                };
                let one = Remote { at: SocketAddr::new(address, port), key, tls };
                if !found.contains(&one) {
                    found.push(one);
                }
                continue;
            }
            let list = self.servers.get(&word.to_ascii_lowercase()).copied();
            match list.filter(|_| depth < MAX_REFERENCES) {
                Some(list) => {
                    let at = SocketAddr::new(usual.at.ip(), port);
                    let inner = Remote::default_of(list);
                    let at = if inner.at.port() == 0 { at } else { inner.at };
                    let usual = Remote { at, key: written_key, tls: inner.tls.or(tls) };
                    self.add_remotes(list, &usual, depth + 1, found);
                }
                None if list.is_some() => {
                    self.steps = MAX_ELEMENTS;
                    self.draft.note(element, "lists of servers that name each other");
                }
                None => self.draft.note(element, "neither an address nor a list of servers"),
            }
        }
    }
}

impl Remote {
    /// Returns the settings of a list for servers without their own settings. Port 0 means that no
    /// port is set.
    fn default_of(statement: &Statement) -> Self {
        let port = statement.after("port").and_then(|port| port.parse().ok()).unwrap_or(0);
        let owned = |keyword| statement.after(keyword).map(str::to_owned);
        let at = SocketAddr::new(IpAddr::from([0; 4]), port);
        Self { at, key: owned("key"), tls: owned("tls").map(|tls| tls.to_ascii_lowercase()) }
    }

    /// Returns the server in the form of `notify` and `primaries`, without TLS.
    pub(super) fn plain(&self) -> String {
        let at = match self.at.port() {
            DNS_PORT => self.at.ip().to_string(),
            _ => self.at.to_string(),
        };
        self.with_key(&at)
    }

    /// Returns the server in text form, followed by its key.
    pub(super) fn with_key(&self, server: &str) -> String {
        match &self.key {
            Some(key) => format!("{server} key {key}"),
            None => server.to_owned(),
        }
    }

    /// Returns the name of the server's `tls` statement, if it has one.
    pub(super) fn tls(&self) -> Option<&str> {
        self.tls.as_deref().filter(|tls| *tls != "none")
    }
}

fn of_none() -> Clients {
    Clients::default()
}

/// Parses an address or a network. The last octets of an IPv4 network may be missing.
fn network(text: &str) -> Option<ipnet::IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.into());
    }
    if let Ok(net) = text.parse::<ipnet::IpNet>() {
        return Some(net);
    }
    let (address, length) = text.split_once('/')?;
    let octets = address.split('.').count();
    let padded = format!("{address}{}/{length}", ".0".repeat(4_usize.checked_sub(octets)?));
    padded.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_may_lack_their_last_octets() {
        let shown = |text| network(text).map(|net| net.to_string());
        assert_eq!(shown("10/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(shown("192.168/16").as_deref(), Some("192.168.0.0/16"));
        assert_eq!(shown("fd00::1").as_deref(), Some("fd00::1/128"));
        for wrong in ["office", "10", "1.2.3.4.5/8", "10/40", "/8"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }
}
