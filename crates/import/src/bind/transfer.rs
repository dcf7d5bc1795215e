//! Transfers, NOTIFY and updates of a zone.

use avocet_wire::{Rtype, rdata};

use crate::hosted::{ArrayTable, zone_name};
use crate::networks::Networks;

use super::reader::{BindReader, Clients, Remote};
use super::scope::View;
use super::statement::{Statement, last};

impl<'r> BindReader<'r> {
    /// Sets `allow-transfer`.
    pub(super) fn allow_transfer(
        &mut self,
        zone: &'r [Statement],
        view: &View<'r>,
        table: &mut ArrayTable,
    ) {
        let Some(statement) = view.find_for(zone, &["allow-transfer"]) else { return };
        let needs_tls = match statement.after("transport").map(str::to_ascii_lowercase).as_deref() {
            Some("tls") => true,
            Some("tcp") | None => false,
            Some(_) => return self.note_here(statement, "transfers are by TCP or TLS"),
        };
        if statement.after("port").is_some() {
            self.note_here(statement, "transfers are possible at all ports of listeners");
        }
        let clients = self.named_clients(statement);
        let items = items(&clients).into_iter();
        let items = items.map(|item| if needs_tls { format!("{item} tls") } else { item });
        table.set_list("allow-transfer", items.collect());
    }

    /// Returns the clients of a list, but without the networks of interfaces: the import does not
    /// know their addresses.
    fn named_clients(&mut self, statement: &'r Statement) -> Clients {
        let mut clients = self.clients(statement.block(), statement);
        if clients.networks.has_local() {
            self.note_here(statement, "`localnets` is left out: name the networks");
            clients.networks = clients.networks.without(&Networks::local()).unwrap_or_default();
        }
        clients
    }

    /// Sets `notify`.
    pub(super) fn notify(
        &mut self,
        zone: &'r [Statement],
        view: &View<'r>,
        table: &mut ArrayTable,
    ) {
        let mode = view.find_for(zone, &["notify"]).and_then(|found| found.word(1));
        let mode = mode.unwrap_or("yes").to_ascii_lowercase();
        if matches!(mode.as_str(), "no" | "false" | "0") {
            return;
        }
        let targets = view.find_for(zone, &["also-notify"]);
        let remotes = targets.map(|statement| (statement, self.remotes(statement)));
        let mut items = Vec::new();
        for (statement, remote) in
            remotes.iter().flat_map(|(statement, all)| all.iter().map(move |one| (statement, one)))
        {
            if remote.tls().is_some() {
                self.note_here(statement, "NOTIFY is sent by UDP only");
            }
            items.push(remote.plain());
        }
        items.dedup();
        let is_transferred = table.pairs.iter().any(|(key, _)| *key == "allow-transfer");
        if mode != "explicit" && is_transferred {
            self.note_once(
                "notify",
                "servers in the NS records of a zone get no NOTIFY: name their addresses in \
                 `notify` of `[[zone]]`",
            );
        }
        table.set_list("notify", items);
    }

    /// Sets `primaries`, and returns whether the zone has any.
    pub(super) fn primaries(&mut self, zone: &'r [Statement], table: &mut ArrayTable) -> bool {
        let found = ["primaries", "masters"].iter().find_map(|key| last(zone, key));
        let Some(statement) = found else { return false };
        let remotes = self.remotes(statement);
        let texts: Vec<String> =
            remotes.iter().filter_map(|one| self.primary(one, statement, table)).collect();
        let is_any = !texts.is_empty();
        table.set_list("primaries", texts);
        is_any
    }

    /// Returns a primary in the form of the configuration. Sets the proofs of identity that the
    /// primary must provide over TLS.
    pub(super) fn primary(
        &mut self,
        remote: &Remote,
        statement: &Statement,
        table: &mut ArrayTable,
    ) -> Option<String> {
        let Some(tls) = remote.tls() else { return Some(remote.plain()) };
        let Some(settings) = self.tls.get(tls).copied() else {
            let reason = "without the settings of `tls`, it proves nothing: it is left out";
            self.draft.note(statement, reason);
            return None;
        };
        let mut server = format!("tls://{}", remote.at);
        for inner in settings.block() {
            match (inner.key().as_str(), inner.word(1)) {
                ("remote-hostname", Some(name)) => server = format!("tls://{name}@{}", remote.at),
                ("ca-file", Some(file)) => {
                    let file = self.path(file);
                    match table.text("ca") {
                        None => table.set("ca", file),
                        Some(set) if set == file => {}
                        Some(_) => self.draft.note(inner, "all primaries of a zone have one `ca`"),
                    }
                }
                ("cert-file" | "key-file", _) => {
                    self.draft.note(inner, "for primaries: set `client-cert` and `client-key`");
                }
                _ => self.draft.quiet(format!("tls: {}", inner.key())),
            }
        }
        Some(remote.with_key(&server))
    }

    /// Sets `allow-update`.
    pub(super) fn allow_update(
        &mut self,
        zone: &'r [Statement],
        view: &View<'r>,
        table: &mut ArrayTable,
    ) {
        let mut items = Vec::new();
        if let Some(statement) = view.find_for(zone, &["allow-update"]) {
            let clients = self.named_clients(statement);
            if !clients.networks.is_empty() {
                self.note_here(statement, "updates need a key: addresses alone permit nothing");
            }
            items = items_of_keys(&clients);
        }
        if let Some(statement) = last(zone, "update-policy") {
            if statement.block().is_empty() {
                let reason =
                    "`update-policy local` needs a key that BIND makes: set `allow-update`";
                self.draft.note(statement, reason);
            }
            for grant in statement.block() {
                match self.grant(grant) {
                    Some(item) => items.push(item),
                    // A later `grant` may permit what this `deny` forbids.
                    None if grant.key() == "deny" => {
                        self.draft.note(statement, "the rules behind one with `deny` are left out");
                        break;
                    }
                    None => {}
                }
            }
        }
        items.dedup();
        table.set_list("allow-update", items);
    }

    /// Returns an item of `allow-update` for `grant KEY RULETYPE [NAME] [TYPES]`.
    fn grant(&mut self, grant: &Statement) -> Option<String> {
        const UNLIKE: &str = "no equivalent: rules are for a key, with all names of the zone, one \
                              name, the names below one, or its own name";
        if grant.key() != "grant" {
            self.draft.note(grant, "rules only permit");
            return None;
        }
        let words: Vec<&str> = (1..grant.items.len()).filter_map(|at| grant.word(at)).collect();
        let [identity, kind, rest @ ..] = words.as_slice() else {
            self.draft.note(grant, UNLIKE);
            return None;
        };
        let kind = kind.to_ascii_lowercase();
        let (names, types) = match (kind.as_str(), rest) {
            ("zonesub", types) => (String::new(), types),
            ("name", [name, types @ ..]) => (format!(" exact {}", self.name(name, grant)?), types),
            ("subdomain", [name, types @ ..]) => {
                (format!(" subtree {}", self.name(name, grant)?), types)
            }
            ("self", [_, types @ ..]) => (" self".to_owned(), types),
            ("selfsub", [_, types @ ..]) => {
                (format!(" subtree {}", self.name(identity, grant)?), types)
            }
            _ => {
                self.draft.note(grant, UNLIKE);
                return None;
            }
        };
        let key = self.key(identity, grant)?;
        let types = self.types(types, grant)?;
        Some(format!("key {key}{names}{types}"))
    }

    fn name(&mut self, written: &str, grant: &Statement) -> Option<String> {
        let name = zone_name(written).filter(|name| name != ".");
        if name.is_none() {
            self.draft.note(grant, format!("{written:?} is no name for a rule"));
        }
        name
    }

    /// Returns the types of a rule in the form of the configuration, or `None` if the result would
    /// permit something else.
    fn types(&mut self, written: &[&str], grant: &Statement) -> Option<String> {
        if written.iter().any(|word| word.eq_ignore_ascii_case("any")) {
            return Some(String::new());
        }
        let mut types = Vec::new();
        for word in written {
            let word = word.split('(').next().unwrap_or(word);
            let number = rdata::from_mnemonic(&word.to_ascii_uppercase());
            match number.filter(|number| *number != 0 && !Rtype(*number).is_meta()) {
                Some(number) => types.push(Rtype(number).to_string()),
                None => self.draft.note(grant, format!("there is no type {word:?}")),
            }
        }
        match (types.is_empty(), written.is_empty()) {
            (true, true) => Some(String::new()),
            (true, false) => None,
            (false, _) => Some(format!(" types {}", types.join(","))),
        }
    }
}

/// Returns the items of `allow-transfer` for clients.
fn items(clients: &Clients) -> Vec<String> {
    [clients.networks.texts(), items_of_keys(clients)].concat()
}

fn items_of_keys(clients: &Clients) -> Vec<String> {
    let mut items = Vec::new();
    for (within, key) in &clients.keys {
        match within {
            None => items.push(format!("key {key}")),
            Some(within) => {
                items.extend(within.texts().iter().map(|net| format!("{net} key {key}")));
            }
        }
    }
    items
}
