//! BIND: `named.conf` (the BIND 9 Administrator Reference Manual, "Configuration Reference").

mod options;
mod policy;
mod reader;
mod scope;
mod signing;
mod statement;
mod token;
mod transfer;
mod zone;

use std::collections::HashSet;

use toml::Value;

use crate::access::{self, ViewAccess};
use crate::draft::{Draft, Group};
use crate::hosted::{ZoneFile, zone_name};
use crate::networks::Networks;
use crate::source::{Error, Files, malformed};
use reader::BindReader;
use scope::View;
use statement::{Statement, last};
use zone::{BuiltZone, BuiltZones, ZoneKind};

/// Statements that identify the configuration.
const KNOWN: &[&str] = &["acl", "key", "logging", "options", "view", "zone"];
/// Statements with definitions that are read where they are used.
const DEFINITIONS: &[&str] = &[
    "acl",
    "dnssec-policy",
    "http",
    "key",
    "key-store",
    "masters",
    "options",
    "parental-agents",
    "primaries",
    "remote-servers",
    "server",
    "tls",
    "trust-anchors",
    "trusted-keys",
    "managed-keys",
    "view",
    "zone",
];
/// Statements that do not affect answers.
const QUIET: &[&str] = &["controls", "logging", "lwres", "statistics-channels"];
/// Maximum number of views.
const MAX_VIEWS: usize = 64;
/// The group of clients that are in no other group.
const DEFAULT_GROUP: &str = "default";

/// Reads a configuration.
///
/// # Errors
/// The file cannot be read, or is not written in the syntax of BIND.
pub(crate) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    let statements = statement::gather(path, files, draft)?;
    if !statements.iter().any(|statement| KNOWN.contains(&statement.key().as_str())) {
        return Err(malformed(path, "no settings of BIND found"));
    }
    let inner = statements.iter().filter(|one| one.key() == "view").flat_map(Statement::block);
    let mut reader = BindReader::of(inner.chain(&statements), files, draft);
    reader.whole(&statements);
    Ok(())
}

/// Reads the zones of a configuration that PowerDNS shares with BIND, and returns their names.
///
/// # Errors
/// The same as those of [`read`].
pub(crate) fn read_zones(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
) -> Result<Vec<String>, Error> {
    let statements = statement::gather(path, files, draft)?;
    let mut reader = BindReader::of(statements.iter(), files, draft);
    let options = last(&statements, "options").map(Statement::block).unwrap_or_default();
    reader.set_directory(options, &statements);
    let view = View::whole(&statements, options);
    let zones = statements.iter().filter(|one| one.key() == "zone");
    let mut built = BuiltZones::default();
    zones.for_each(|zone| reader.add_zone(zone, &view, 0, &mut built));
    let names = built.list.iter().map(|zone| zone.name.clone()).collect();
    reader.write_zones(built, std::slice::from_ref(&view), &[DEFAULT_GROUP.to_owned()]);
    Ok(names)
}

impl<'s> View<'s> {
    /// Returns the view of all clients.
    fn whole(block: &'s [Statement], options: &'s [Statement]) -> Self {
        let clients = Networks::any();
        Self { name: None, place: None, block, options, clients, is_last: true }
    }
}

impl<'r> BindReader<'r> {
    fn set_directory(&mut self, options: &'r [Statement], statements: &[Statement]) {
        let written = last(options, "directory").and_then(|found| found.word(1));
        let own = statements.first().map(Statement::directory).unwrap_or_default();
        self.directory =
            written.map_or_else(|| own.to_owned(), |path| statement::beside(own, path));
    }

    fn whole(&mut self, statements: &'r [Statement]) {
        let options = last(statements, "options").map(Statement::block).unwrap_or_default();
        self.set_directory(options, statements);
        self.outer(statements);
        self.draft.set("resolver", "mode", "recurse", "BIND resolves names itself");
        let whole = View::whole(statements, options);
        self.options(&whole, options);
        self.listeners(options);
        let views = self.views(statements, options);
        let inherits = |view: &View<'_>| view.name.is_none() || view.own("forwarders").is_none();
        if let Some(statement) = last(options, "forwarders").filter(|_| views.iter().any(inherits))
        {
            self.forwarders(".", statement, options, &whole);
        }
        let mut accesses = Vec::new();
        let mut built = BuiltZones::default();
        let (mut groups, mut lists, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for (position, view) in views.iter().enumerate() {
            let zones: Vec<&Statement> =
                view.block.iter().filter(|statement| statement.key() == "zone").collect();
            if view.name.is_some() {
                self.options(view, view.block);
                if let Some(statement) = view.own("forwarders") {
                    self.forwarders(".", statement, view.block, view);
                }
            }
            let policies = self.policy_zones(view, &zones, &mut known);
            let policy_zones: HashSet<String> = view
                .find("response-policy")
                .into_iter()
                .flat_map(|statement| statement.block().iter())
                .filter_map(|element| element.after("zone").and_then(zone_name))
                .collect();
            for zone in zones {
                let name = zone.word(1).and_then(zone_name).unwrap_or_default();
                if !policy_zones.contains(&name) {
                    self.add_zone(zone, view, position, &mut built);
                }
            }
            let (clients, recursion) = (view.clients.clone(), self.recursion(view));
            accesses.push(ViewAccess { clients, recursion, ..ViewAccess::default() });
            let group = Self::group(view, &groups);
            groups.push(group);
            lists.push(policies);
        }
        for zone in &built.list {
            for (view, clients) in &zone.views {
                let access: Option<&mut ViewAccess> = accesses.get_mut(*view);
                access.map(|access| access.zones.insert(zone.name.clone(), clients.clone()));
            }
        }
        self.catalogs(&views, &mut built);
        self.write_zones(built, &views, &groups);
        self.write_groups(&views, &groups, lists);
        access::apply(&accesses, "allow-query and allow-recursion of BIND", self.draft);
        for key in self.unused_keys() {
            self.draft.quiet(format!("key {key}, which nothing of the above uses"));
        }
    }

    /// Reads the top-level statements other than definitions and zones.
    fn outer(&mut self, statements: &'r [Statement]) {
        let has_views = statements.iter().any(|statement| statement.key() == "view");
        let mut anchors: Vec<Value> = Vec::new();
        for statement in statements {
            match statement.key().as_str() {
                "trust-anchors" | "trusted-keys" | "managed-keys" => {
                    self.anchors(statement, &mut anchors);
                }
                "zone" if has_views => {
                    self.draft.note(statement, "with views, each zone is in one of them");
                }
                key if DEFINITIONS.contains(&key) => {}
                key if QUIET.contains(&key) => self.draft.quiet(key),
                _ => self.draft.note(statement, "there is no such statement here"),
            }
        }
        if !anchors.is_empty() {
            self.draft.set("dnssec", "trust-anchors", anchors, "trust anchors of BIND");
            self.draft.note(
                "trust-anchors",
                "with anchors of other zones, those of the root are not built in: add them",
            );
        }
    }

    /// Returns the views with their clients. Returns one view for all clients if the configuration
    /// has none.
    fn views(&mut self, statements: &'r [Statement], options: &'r [Statement]) -> Vec<View<'r>> {
        let written: Vec<&Statement> =
            statements.iter().filter(|statement| statement.key() == "view").collect();
        if written.is_empty() {
            return vec![View::whole(statements, options)];
        }
        let (mut views, mut seen) = (Vec::new(), Networks::default());
        for view in written {
            if views.len() >= MAX_VIEWS {
                self.draft.note(view, format!("more than {MAX_VIEWS} views"));
                continue;
            }
            let block = view.block();
            for key in ["match-destinations", "match-recursive-only"] {
                if let Some(other) = last(block, key) {
                    let reason = "clients see a zone by their address; for the address that they \
                                  ask, see `listener:NAME` in `view`";
                    self.draft.note(other, reason);
                }
            }
            let matched = match last(block, "match-clients") {
                Some(list) => self.askers(list),
                None => Networks::any(),
            };
            let Some(clients) = matched.without(&seen) else {
                self.draft.note(view, "too many networks");
                continue;
            };
            if clients.has_local() {
                let reason = "`localnets` is taken as the private networks";
                self.draft.note(view, reason);
            }
            seen = seen.with(&matched);
            let (name, is_last) = (view.word(1), matched.is_any());
            views.push(View { name, place: Some(view), block, options, clients, is_last });
        }
        views
    }

    /// Returns the name of the group of a view.
    fn group(view: &View<'r>, groups: &[String]) -> String {
        match view.name {
            Some(name) if !view.is_last => {
                let name = crate::name::slug(name, "view");
                let name = if name == DEFAULT_GROUP { "view-default".to_owned() } else { name };
                let count = groups.iter().filter(|other| other.starts_with(&name)).count();
                if count == 0 { name } else { format!("{name}-{}", count + 1) }
            }
            _ => DEFAULT_GROUP.to_owned(),
        }
    }

    /// Adds a zone of a view. If an earlier view has the same zone, adds the view to that zone.
    fn add_zone(
        &mut self,
        zone: &'r Statement,
        view: &View<'r>,
        position: usize,
        built: &mut BuiltZones,
    ) {
        match self.zone(zone, view) {
            ZoneKind::Other => {}
            ZoneKind::InView { zone: name, view } => {
                match built.find(&name, |other| other.first_view == view) {
                    Some(other) => drop(other.views.insert(position, other.clients.clone())),
                    None => self.draft.note(zone, format!("the view {view} has no such zone")),
                }
            }
            ZoneKind::Hosted(mut one) => {
                one.views.insert(position, one.clients.clone());
                let file = one.table.text("file");
                let is_same = |other: &BuiltZone| {
                    other.table.text("file") == file && !other.views.contains_key(&position)
                };
                if let Some(other) = built.find(&one.name, is_same) {
                    if other.table.pairs != one.table.pairs {
                        self.draft.note(zone, "its settings are those of the first view with it");
                    }
                    other.views.insert(position, one.clients);
                    return;
                }
                if built.find(&one.name, |other| other.views.contains_key(&position)).is_some() {
                    return self.draft.note(zone, "the zone has another statement");
                }
                built.push(*one);
            }
        }
    }

    /// Marks the catalogs of `catalog-zones`.
    fn catalogs(&mut self, views: &[View<'r>], built: &mut BuiltZones) {
        for view in views {
            let Some(statement) = view.find("catalog-zones") else { continue };
            for element in statement.block() {
                let Some(name) = element.after("zone").and_then(zone_name) else { continue };
                let zone = built.find(&name, |zone| zone.is_secondary);
                match zone {
                    Some(zone) => zone.table.set("catalog", "consumer"),
                    None => self.draft.note(element, "a catalog is a zone with `primaries`"),
                }
            }
        }
    }

    /// Writes the zones with their views.
    fn write_zones(&mut self, built: BuiltZones, views: &[View<'r>], groups: &[String]) {
        let mut secondaries = HashSet::new();
        for mut zone in built.list {
            let names: Vec<String> =
                zone.views.keys().filter_map(|view| groups.get(*view).cloned()).collect();
            let is_for_all = zone.views.len() >= views.len();
            let is_default = names.iter().any(|name| name == DEFAULT_GROUP);
            let missing: Vec<&str> = views
                .iter()
                .enumerate()
                .filter(|(position, _)| !zone.views.contains_key(position))
                .filter_map(|(_, view)| view.name)
                .collect();
            if zone.is_secondary {
                let origin = zone.table.origin.clone();
                if !secondaries.insert(zone.name.clone()) {
                    self.draft.note(
                        origin,
                        "a zone of other servers has no view: that of the first \
                                             view with it is there for all clients",
                    );
                    continue;
                }
                if !missing.is_empty() {
                    self.draft.note(
                        origin,
                        "a zone of other servers is there for the clients of \
                                             all views",
                    );
                }
            } else if !is_for_all {
                let names = if is_default {
                    // Clients of other views see the zone of the same name in their own view.
                    vec![DEFAULT_GROUP.to_owned()]
                        .into_iter()
                        .chain(names.into_iter().filter(|name| name != DEFAULT_GROUP))
                        .collect()
                } else {
                    names
                };
                zone.table.set("view", names);
            }
            if let (false, Some(path)) = (zone.is_secondary, zone.table.text("file")) {
                let (path, origin) = (path.to_owned(), zone.table.origin.clone());
                self.draft.hosted.zone_files.push(ZoneFile { zone: zone.name, path, origin });
            }
            self.draft.hosted.add(zone.table);
        }
    }

    /// Writes the groups of the clients of views, with the policy zones of each.
    fn write_groups(&mut self, views: &[View<'r>], groups: &[String], lists: Vec<Vec<String>>) {
        let is_any = lists.iter().any(|names| !names.is_empty());
        for ((view, name), lists) in views.iter().zip(groups).zip(lists) {
            let is_default = name == DEFAULT_GROUP;
            if view.name.is_none() || (is_default && !is_any) {
                continue;
            }
            let clients = if is_default { Vec::new() } else { view.clients.texts() };
            let origin = view.place.map(Statement::place).unwrap_or_default();
            self.draft.groups.push(Group { name: name.clone(), origin, clients, lists });
        }
    }
}
